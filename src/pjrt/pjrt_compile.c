/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_compile.c: from a program to an executable.

   The program is StableHLO, as bytecode or as text. Its signature says what each argument and result is for the
   interface: element types narrower than any dtype cross the border as one byte each, tokens are not values, and an
   argument may give its memory to a result. */
#include "pjrt/pjrt.h"

#include "base/error.h"
#include "base/hash.h"
#include "pjrt/pjrt_type.h"
#include "stablehlo/import/import_program.h"

#include <fluxion/stablehlo.h>
#include <stdio.h>

/* ---- Signature ---- */

static pjrt_error *read_slot(flxi_arena *arena, const hlo_type *t, const char *what, size_t i, pjrt_slot *out)
{
    if (t->kind == HLO_TOKEN) {
        *out = (pjrt_slot){.type = PJRT_TOKEN};
        return NULL;
    }
    out->type = t->kind == HLO_TENSOR && !t->quant && !t->is_unranked ? flxi_pjrt_type_of(t->element) : PJRT_INVALID;
    out->rank = (size_t)t->rank;
    if (out->type == PJRT_INVALID) {
        char text[160];
        flxi_hlo_type_print(t, text, sizeof text);
        return flxi_pjrt_fail(PJRT_UNIMPLEMENTED, "%s %zu of @main has the type %s, which arrays cannot have", what, i,
                              text);
    }
    out->dtype = (int32_t)flxi_hlo_element(t->element)->carrier;
    out->dims = out->whole_dims = flxi_dup(arena, int64_t, t->dims, t->rank);
    if (!out->dims)
        return flxi_pjrt_oom();
    pjrt_error *e = flxi_pjrt_array_size(out->type, out->dims, out->rank, &out->nbytes);
    out->whole_nbytes = out->nbytes;
    return e;
}

/* The part that each of several devices has. */
static pjrt_error *read_parts(pjrt_executable *x, const hlo_module *m, const hlo_attr *attrs, const hlo_cuts *spread,
                              const char *what, size_t i, pjrt_slot *out)
{
    size_t n = x->num_devices, rank = out->rank;
    hlo_tiles t = {.parts = flxi_new(&x->arena, int64_t, rank + 1),
                   .at = flxi_new(&x->arena, int64_t, n * rank + 1),
                   .summand = flxi_new(&x->arena, int64_t, n)};
    int64_t *dims = flxi_new(&x->arena, int64_t, rank + 1);
    if (n == 1 || out->type == PJRT_TOKEN)
        return NULL;
    if (!t.parts || !t.at || !t.summand || !dims)
        return flxi_pjrt_oom();
    if (!flxi_hlo_read_tiles_of(m, attrs, spread, (int)rank, (int64_t)n, &t))
        return flxi_pjrt_fail(PJRT_UNIMPLEMENTED, "%s %zu of @main has a sharding that is not known", what, i);
    for (size_t k = 0; k < rank; k++) {
        if (out->whole_dims[k] % t.parts[k])
            return flxi_pjrt_fail(PJRT_UNIMPLEMENTED, "axis %zu of %s %zu of @main is not cut in equal parts", k, what,
                                  i);
        dims[k] = out->whole_dims[k] / t.parts[k];
        out->is_cut |= t.parts[k] > 1;
    }
    if (t.summands > 1 && flx_dtype_size((flx_dtype)out->dtype) != flxi_pjrt_type_size(out->type))
        return flxi_pjrt_fail(PJRT_UNIMPLEMENTED, "%s %zu of @main is a sum of narrow elements", what, i);
    out->is_cut |= t.summands > 1;
    out->parts = t.parts;
    out->at = t.at;
    out->summands = t.summands;
    out->summand = t.summand;
    out->dims = dims;
    return flxi_pjrt_array_size(out->type, dims, rank, &out->nbytes);
}

/* tf.aliasing_output = k: the argument's memory should become result k; jax.buffer_donor: it may be used for anything.
   Either way the argument is lost. */
static void read_donation(const hlo_attr *attrs, size_t num_results, pjrt_slot *out)
{
    const hlo_attr *alias = attrs ? flxi_hlo_entry(attrs, "tf.aliasing_output") : NULL;
    const hlo_attr *donor = attrs ? flxi_hlo_entry(attrs, "jax.buffer_donor") : NULL;
    if (alias && alias->kind == HLO_A_INT && alias->integer >= 0 && (uint64_t)alias->integer < num_results)
        out->shared = (size_t)alias->integer + 1;
    out->is_donated = alias || (donor && (donor->kind == HLO_A_UNIT || donor->integer));
}

/* The kind of memory that an argument or a result is in. */
static pjrt_error *read_kind(const hlo_attr *attrs, const char *what, size_t i, pjrt_slot *out)
{
    const hlo_attr *a = attrs ? flxi_hlo_entry(attrs, "mhlo.memory_kind") : NULL;
    if (!a || a->kind != HLO_A_STRING || flxi_pjrt_find_kind(a->text, strlen(a->text), &out->kind))
        return NULL;
    return flxi_pjrt_fail(PJRT_UNIMPLEMENTED, "%s %zu of @main is in memory of the kind '%.40s', which there is not",
                          what, i, a->text);
}

static pjrt_error *read_signature(pjrt_executable *x, const hlo_module *m, const hlo_function *f)
{
    pjrt_error *e = NULL;
    x->num_args = f->body.num_args;
    x->num_results = f->num_results;
    x->args = flxi_new(&x->arena, pjrt_slot, x->num_args + 1);
    x->results = flxi_new(&x->arena, pjrt_slot, x->num_results + 1);
    const hlo_cuts **spreads = flxi_new(&x->arena, const hlo_cuts *, x->num_results + 1);
    if (!x->args || !x->results || !spreads)
        return flxi_pjrt_oom();
    if (x->num_devices > 1 && !flxi_hlo_spread(m, f, &x->arena, spreads))
        return flxi_pjrt_oom();
    for (size_t i = 0; i < x->num_args && !e; i++) {
        const hlo_attr *attrs = f->arg_attrs ? f->arg_attrs[i] : NULL;
        e = read_slot(&x->arena, f->body.args[i]->type, "argument", i, &x->args[i]);
        if (!e)
            e = read_parts(x, m, attrs, NULL, "argument", i, &x->args[i]);
        if (!e)
            e = read_kind(attrs, "argument", i, &x->args[i]);
        read_donation(attrs, x->num_results, &x->args[i]);
        x->args[i].position = x->num_inputs;
        x->num_inputs += x->args[i].type != PJRT_TOKEN;
    }
    for (size_t i = 0; i < x->num_results && !e; i++) {
        const hlo_attr *attrs = f->result_attrs ? f->result_attrs[i] : NULL;
        e = read_slot(&x->arena, f->results[i], "result", i, &x->results[i]);
        if (!e)
            e = read_parts(x, m, attrs, spreads[i], "result", i, &x->results[i]);
        if (!e)
            e = read_kind(attrs, "result", i, &x->results[i]);
        x->results[i].position = x->num_outputs;
        x->num_outputs += x->results[i].type != PJRT_TOKEN;
    }
    return e;
}

/* ---- What the getters return ---- */

static bool list_kinds(pjrt_executable *x, const pjrt_slot *slots, size_t n, int which)
{
    const char **names = x->memory_kinds[which] = flxi_new(&x->arena, const char *, n + 1);
    size_t *sizes = x->memory_kind_sizes[which] = flxi_new(&x->arena, size_t, n + 1);
    for (size_t i = 0; names && sizes && i < n; i++) {
        names[i] = flxi_pjrt_kind_name(slots[i].kind);
        sizes[i] = strlen(names[i]);
    }
    return names && sizes;
}

static bool fill_lists(pjrt_executable *x)
{
    size_t num_dims = 0;
    for (size_t i = 0; i < x->num_results; i++)
        num_dims += x->results[i].rank;
    x->result_types = flxi_new(&x->arena, int32_t, x->num_results + 1);
    x->result_ranks = flxi_new(&x->arena, size_t, x->num_results + 1);
    x->result_dims = flxi_new(&x->arena, int64_t, num_dims + 1);
    if (!x->result_types || !x->result_ranks || !x->result_dims)
        return false;
    if (!list_kinds(x, x->args, x->num_args, 0) || !list_kinds(x, x->results, x->num_results, 1))
        return false;
    int64_t *dims = x->result_dims;
    for (size_t i = 0; i < x->num_results; i++) {
        x->result_types[i] = x->results[i].type;
        x->result_ranks[i] = x->results[i].rank;
        for (size_t k = 0; k < x->results[i].rank; k++)
            *dims++ = x->results[i].dims[k];
    }
    return true;
}

static void name_cost(pjrt_named_value *v, const char *name, double value)
{
    *v = (pjrt_named_value){.struct_size = sizeof *v, .name = name, .name_size = strlen(name)};
    v->type = PJRT_VALUE_FLOAT;
    v->real = (float)value;
    v->size = 1;
}

static void fill_costs(pjrt_executable *x)
{
    double flops = 0;
    double bytes = 0;
    flx_step step;
    for (size_t i = 0; flx_exec_step(x->exec, i, &step) == FLX_OK; i++)
        if (step.depth == 0) {
            flops += (double)step.flops;
            bytes += (double)step.bytes;
        }
    atomic_init(&x->last_ns, (long long)(flops + bytes)); /* about one for each nanosecond */
    name_cost(&x->costs[0], "flops", flops);
    name_cost(&x->costs[1], "bytes accessed", bytes);
}

/* ---- Compiling ---- */

/* The evaluator reads and writes about a byte in a nanosecond: a program with more of them is compiled before its first
   run, which takes less. Loops are counted once. A step of ResNet-18 reads and writes 0.8 GB: on idle cores it is
   compiled in the time that its first run would take interpreted, and the runs after it are not slow. */
static const float MOST_INTERPRETED = 3e8F;

/* The processor interprets, and is what several devices are. */
static const char *device_of(const pjrt_executable *x)
{
    return x->options.mode == PJRT_MODE_INTERPRET || x->num_devices > 1 ? "cpu" : x->client->computes_on;
}

/* Processes must all run the same steps: none may change to machine code by itself. */
static uint32_t flags_of(const pjrt_executable *x)
{
    if (strcmp(device_of(x), "cpu") != 0)
        return 0;
    switch (x->options.mode) {
    case PJRT_MODE_INTERPRET: return FLX_COMPILE_INTERPRET;
    case PJRT_MODE_COMPILE: return 0;
    default: return x->mesh ? FLX_COMPILE_INTERPRET : FLX_COMPILE_LAZY | FLX_COMPILE_BACKGROUND;
    }
}

static pjrt_error *compile_graph(pjrt_executable *x, const flx_graph *g)
{
    flx_error err = {0};
    flx_share *shares = flxi_new(&x->arena, flx_share, x->num_args + 1);
    size_t n = 0;
    if (!shares)
        return flxi_pjrt_oom();
    bool is_cpu = strcmp(device_of(x), "cpu") == 0;
    for (size_t i = 0; i < x->num_args && x->num_devices == 1 && is_cpu; i++)
        if (x->args[i].shared && x->args[i].type != PJRT_TOKEN && x->results[x->args[i].shared - 1].type != PJRT_TOKEN)
            shares[n++] = (flx_share){x->args[i].position, x->results[x->args[i].shared - 1].position};
    flx_compile_options o = {.struct_size = sizeof o,
                             .flags = flags_of(x),
                             .device = device_of(x),
                             .threads = x->options.threads,
                             .shares = shares,
                             .num_shares = n};
    x->exec = flx_compile(g, &o, &err);
    if (!x->exec)
        return flxi_pjrt_from(&err);
    fill_costs(x);
    if (x->options.mode != PJRT_MODE_AUTO || x->costs[1].real < MOST_INTERPRETED || !is_cpu)
        return NULL;
    flx_exec_free(x->exec);
    x->options.mode = PJRT_MODE_COMPILE;
    o.flags = flags_of(x);
    x->exec = flx_compile(g, &o, &err);
    if (x->exec)
        fill_costs(x);
    return x->exec ? NULL : flxi_pjrt_from(&err);
}

/* A thread for each device where the program says what each of them computes. */
static pjrt_error *choose_processes(pjrt_executable *x, const hlo_module *program)
{
    char mesh[HLO_MESH_TEXT];
    if (x->num_devices == 1 || !flxi_hlo_uses(program, "sdy.manual_computation", NULL))
        return NULL;
    flxi_hlo_mesh_of_processes(program, mesh);
    if (!mesh[0])
        return NULL;
    x->mesh = flxi_arena_text(&x->arena, mesh, strlen(mesh));
    x->options.threads = 1;
    return x->mesh ? NULL : flxi_pjrt_oom();
}

static pjrt_error *import(pjrt_executable *x)
{
    flx_error err = {0};
    hlo_module program;
    pjrt_error *e = NULL;
    if (flxi_hlo_read(x->client->ctx, x->program, x->program_size, "program", &program, &err) != FLX_OK)
        return flxi_pjrt_from(&err);
    const hlo_function *f = flxi_hlo_entry_function(&program, &err);
    flx_module *m = NULL;
    x->name =
        flxi_arena_text(&x->arena, program.name ? program.name : "main", strlen(program.name ? program.name : "main"));
    if (!f)
        e = flxi_pjrt_from(&err);
    else
        e = x->name ? read_signature(x, &program, f) : flxi_pjrt_oom();
    if (!e)
        e = choose_processes(x, &program);
    x->calls_host = flxi_hlo_uses(&program, "stablehlo.custom_call", "fluxion_callback");
    if (!e) {
        m = flxi_hlo_import(x->client->ctx, &program, "program", HLO_IMPORT_CODES | HLO_IMPORT_WHOLE, &err);
        e = m ? compile_graph(x, flx_module_main(m)) : flxi_pjrt_from(&err);
    }
    flx_module_free(m);
    flxi_hlo_module_free(&program);
    return e;
}

static bool keep_bytes(pjrt_executable *x, const char *program, size_t size, const char *options, size_t options_size)
{
    x->program = flxi_arena_text(&x->arena, program, size);
    x->program_size = size;
    x->option_bytes = flxi_arena_text(&x->arena, options_size ? options : "", options_size);
    x->option_bytes_size = options_size;
    return x->program && x->option_bytes;
}

/* The same program, options and version give the same text. */
static void fingerprint(pjrt_executable *x)
{
    uint64_t h = flxi_hash_text(FLXI_HASH_SEED, FLX_VERSION);
    h = flxi_hash_bytes(h, x->program, x->program_size);
    h = flxi_hash_bytes(h, x->option_bytes, x->option_bytes_size);
    snprintf(x->fingerprint, sizeof x->fingerprint, "%016llx", (unsigned long long)h);
}

static pjrt_error *make(pjrt_executable *x, const char *program, size_t size, const char *options, size_t options_size)
{
    if (!keep_bytes(x, program, size, options, options_size))
        return flxi_pjrt_oom();
    pjrt_error *e = flxi_pjrt_read_options(x->client, x->option_bytes, options_size, &x->options);
    if (e)
        return e;
    x->num_devices = (size_t)x->options.num_partitions;
    for (size_t i = 0; i < x->num_devices; i++) {
        x->devices[i] = &x->client->devices[x->options.devices[i]];
        x->logical[i].partition = (int32_t)i;
    }
    e = import(x);
    if (e)
        return e;
    fingerprint(x);
    e = flxi_pjrt_list_layouts(x, x->args, x->num_args, 0);
    if (!e)
        e = flxi_pjrt_list_layouts(x, x->results, x->num_results, 1);
    if (e)
        return e;
    return fill_lists(x) ? flxi_pjrt_describe_shardings(x) : flxi_pjrt_oom();
}

pjrt_error *flxi_pjrt_compile(pjrt_client *c, const char *program, size_t size, const char *options,
                              size_t options_size, pjrt_executable **out)
{
    pjrt_executable *x = flxi_alloc(&flxi_pjrt_mem, 1, sizeof *x);
    if (!x)
        return flxi_pjrt_oom();
    atomic_init(&x->holders, 1);
    x->client = c;
    flxi_arena_init(&x->arena, &flxi_pjrt_mem);
    pjrt_error *e = make(x, program, size, options, options_size);
    if (e)
        flxi_pjrt_executable_release(x);
    else
        *out = x;
    return e;
}

void flxi_pjrt_executable_release(pjrt_executable *x)
{
    if (!x || atomic_fetch_sub(&x->holders, 1) != 1)
        return;
    flx_exec_free(x->exec);
    flxi_arena_free(&x->arena);
    flxi_free(&flxi_pjrt_mem, x, 1, sizeof *x);
}

pjrt_error *flxi_pjrt_client_compile(void *args)
{
    pjrt_compile_args *a = args;
    const pjrt_program *p = a->program;
    if (p->format_size != 4 || memcmp(p->format, "mlir", 4) != 0)
        return flxi_pjrt_fail(PJRT_UNIMPLEMENTED, "programs of the format '%.*s' are not known, only mlir",
                              p->format_size < 40 ? (int)p->format_size : 40, p->format);
    return flxi_pjrt_compile(a->client, p->code, p->code_size, a->options, a->options_size, &a->executable);
}
