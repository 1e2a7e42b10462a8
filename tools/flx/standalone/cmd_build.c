/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_build.c: `flx build`: a graph as a C file that needs nothing but a C compiler. */
#include "commands.h"
#include "compiling.h"
#include "io/inputs.h"
#include "io/json_writer.h"
#include "io/load.h"
#include "io/output.h"
#include "report.h"
#include "standalone/build_compile.h"

#include <fluxion/build.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *out, *header;
    build_kind kind;
    bool measures;
    const char *const *machine; /* flags of the C compiler for the target, ended by NULL */
    flx_build_options o;
    flx_train_options train;
    char header_name[256];
} request;

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

static int read_out(request *q, const args *a)
{
    static const char *const endings[] = {
        [OUT_TEXT] = ".c", [OUT_OBJECT] = ".o", [OUT_SHARED] = ".so", [OUT_ARCHIVE] = ".a"};
    q->out = args_value(a, "-o");
    if (!q->out)
        return fail(FLX_E_USAGE, "-o is missing: where does the C file go?");
    for (build_kind kind = OUT_TEXT; kind <= OUT_ARCHIVE; kind++)
        if (ends_with(q->out, endings[kind])) {
            q->kind = kind;
            return STATUS_OK;
        }
    if (!output_extension(q->out))
        return STATUS_OK;
    int status = fail(FLX_E_USAGE, "-o %s: there is no such kind of file", q->out);
    hint("OUT.c is text; OUT.o, OUT.a and OUT.so are compiled");
    return status;
}

/* ---- Options ---- */

static int read_params(request *q, const args *a)
{
    static const char *const ways[] = {"caller", "embed", "file"};
    const char *given = args_value(a, "--params");
    for (int i = 0; given && i < 3; i++)
        if (strcmp(ways[i], given) == 0) {
            q->o.params = i;
            return STATUS_OK;
        }
    if (!given)
        return STATUS_OK;
    int status = fail(FLX_E_USAGE, "--params %s: there is no such way to get parameters", given);
    hint("caller, embed or file");
    return status;
}

/* The widest vectors of this machine. */
static const char *host_target(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        return "avx512";
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "avx2" : "sse2";
#elif defined(__aarch64__)
    return "neon";
#else
    return "generic";
#endif
}

static int read_target(request *q, const args *a)
{
    static const char *const none[] = {NULL}, *const avx2[] = {"-mavx2", "-mfma", NULL},
                             *const avx512[] = {"-mavx512f", "-mavx512dq", "-mavx2", "-mfma", NULL};
    static const struct {
        const char *name;
        int bytes;
        uint32_t fused;
        const char *const *flags;
    } targets[] = {{"generic", 0, 0, none},
                   {"neon", 16, FLX_BUILD_FUSED, none},
                   {"sse2", 16, 0, none},
                   {"avx2", 32, FLX_BUILD_FUSED, avx2},
                   {"avx512", 64, FLX_BUILD_FUSED, avx512}};
    q->machine = none;
    const char *given = args_value(a, "--target");
    if (given && strcmp(given, "host") == 0)
        given = host_target();
    for (size_t i = 0; given && i < sizeof targets / sizeof *targets; i++)
        if (strcmp(targets[i].name, given) == 0) {
            q->o.vector_bytes = targets[i].bytes;
            q->o.flags |= targets[i].fused;
            q->machine = targets[i].flags;
            return STATUS_OK;
        }
    if (!given)
        return STATUS_OK;
    int status = fail(FLX_E_USAGE, "--target %s: there is no such target", given);
    hint("generic, host, neon, sse2, avx2 or avx512");
    return status;
}

static int read_threads(request *q, const args *a)
{
    static const char *const kinds[] = {"0", "pthreads", "openmp"};
    const char *given = args_value(a, "--threads");
    for (int i = 0; given && i < 3; i++)
        if (strcmp(kinds[i], given) == 0) {
            q->o.threads = i;
            return STATUS_OK;
        }
    if (!given)
        return STATUS_OK;
    int status = fail(FLX_E_USAGE, "--threads %s: there is no such kind of threads", given);
    hint("0 (one thread computes a run), pthreads or openmp");
    return status;
}

/* One word of --with: `grad`, or `train:OPTIMISER`. */
static int read_addition(request *q, const char *word, size_t n)
{
    char name[32];
    if (n == 4 && memcmp(word, "grad", 4) == 0) {
        if (q->o.flags & FLX_BUILD_GRAD)
            return fail(FLX_E_DUP_NAME, "--with names grad twice");
        q->o.flags |= FLX_BUILD_GRAD;
        return STATUS_OK;
    }
    snprintf(name, sizeof name, "%.*s", (int)(n < 31 ? n : 31), word);
    if (strncmp(name, "train:", 6) == 0 && flx_optimiser_find(name + 6) >= 0) {
        if (q->o.train)
            return fail(FLX_E_USAGE, "--with names two optimisers: a file has one training step");
        q->train = (flx_train_options){.struct_size = sizeof q->train, .optimiser = flx_optimiser_find(name + 6)};
        q->o.train = &q->train;
        return STATUS_OK;
    }
    int status = fail(FLX_E_USAGE, "--with %s: there is no such function", name);
    hint("grad, or train: with an optimiser, as in train:adamw");
    return status;
}

static int read_additions(request *q, const args *a)
{
    const char *at = args_value(a, "--with");
    while (at) {
        size_t n = strcspn(at, ",");
        int status = read_addition(q, at, n);
        if (status)
            return status;
        at = at[n] ? at + n + 1 : NULL;
    }
    double rate = 0;
    const char *given = args_value(a, "--rate");
    if (given && (!read_number(given, &rate) || !(rate > 0)))
        return fail(FLX_E_USAGE, "--rate %s: a number above 0 is needed", given);
    q->train.rate = rate;
    return STATUS_OK;
}

/* Options that would have no effect. */
static int check_uses(const request *q, const args *a)
{
    static const char *const of_values[] = {"--init", "--values"};
    for (size_t i = 0; i < 2; i++)
        if (args_has(a, of_values[i]) && q->o.params != FLX_BUILD_EMBED)
            return fail(FLX_E_USAGE, "%s has no effect without --params embed", of_values[i]);
    if (q->measures && strcmp(q->out, "-") == 0)
        return fail(FLX_E_USAGE, "--measure has no effect with -o -: only the text is printed");
    if (args_has(a, "--rate") && !q->o.train)
        return fail(FLX_E_USAGE, "--rate has no effect without --with train:OPTIMISER");
    return STATUS_OK;
}

/* Nothing that the command reads or writes is overwritten. */
static int check_files(const request *q, const args *a)
{
    static const char *const written[] = {"-o", "--header", NULL};
    if (output_is_same(q->out, a->operand) || output_is_same(q->header, a->operand))
        return fail(FLX_E_USAGE, "%s would be overwritten: it is what is built", a->operand);
    return output_check_distinct(a, written);
}

static int read_request(request *q, const args *a)
{
    q->o.struct_size = sizeof q->o;
    q->o.name = args_value(a, "--name");
    q->header = args_value(a, "--header");
    q->measures = args_has(a, "--measure");
    int status = read_out(q, a);
    if (!status)
        status = check_files(q, a);
    if (status)
        return status;
    if (q->header && q->kind == OUT_TEXT) {
        const char *slash = strrchr(q->header, '/');
        snprintf(q->header_name, sizeof q->header_name, "%s", slash ? slash + 1 : q->header);
        q->o.header = q->header_name;
    }
    status = read_params(q, a);
    if (!status)
        status = read_target(q, a);
    if (!status)
        status = read_threads(q, a);
    if (!status)
        status = read_additions(q, a);
    if (!status)
        status = compiling_read_memory(a, &q->o.memory_budget);
    return status ? status : check_uses(q, a);
}

/* ---- Values of parameters ---- */

/* What an ONNX model has for all of its parameters; false for other models. */
static bool set_from_model(flx_params *set, const model *m, int *status)
{
    flx_error err = {0};
    for (size_t i = 0; m->onnx && !*status && i < flx_params_count(set); i++) {
        const char *name = flx_params_name(set, i);
        flx_tensor *value = model_param(m, name);
        if (!value)
            *status = fail(FLX_E_MISSING_INPUT, "%s has no value for the parameter '%s'", m->name, name);
        else if (flx_params_set(set, name, value, &err))
            *status = report(&err, m->name);
    }
    return m->onnx != NULL;
}

/* Whether a run gives the parameter's next value, as that of a decoder's cache: weights do not have it. */
static bool is_state(const flx_graph *g, const char *name)
{
    static const char next[] = "new_";
    for (size_t i = 0; i < flx_graph_output_count(g); i++) {
        const char *output = flx_graph_output_name(g, i);
        if (strncmp(output, next, sizeof next - 1) == 0 && strcmp(output + sizeof next - 1, name) == 0)
            return true;
    }
    return false;
}

/* Whether the file has all parameters but states, which are initialised as they are declared. */
static bool lacks_only_states(const flx_params *set, const flx_graph *g, const model *m, const char *path)
{
    for (size_t i = 0; i < flx_params_count(set); i++) {
        const char *name = flx_params_name(set, i);
        flx_tensor *value = is_state(g, name) ? NULL : flx_weights_read(m->ctx, path, name, NULL);
        if (!value && !is_state(g, name))
            return false;
        flx_tensor_release(value);
    }
    return true;
}

/* Parameters that the file lacks keep their values where `may_lack` says so, or where they are states. */
static int load_values(flx_params *set, const flx_graph *g, const model *m, const char *named, bool may_lack)
{
    flx_error err = {0};
    int status = STATUS_OK;
    if (!flx_params_count(set) || (!named && set_from_model(set, m, &status)))
        return status;
    char *beside = named ? NULL : weights_find(m->path);
    const char *path = named ? named : beside;
    if (!path)
        return fail_memory();
    uint32_t flags = FLX_PARAMS_SURPLUS | (may_lack ? FLX_PARAMS_MISSING : 0U);
    flx_code code = flx_params_load(set, path, flags, &err);
    if (code == FLX_E_NAME && !may_lack && lacks_only_states(set, g, m, path))
        code = flx_params_load(set, path, FLX_PARAMS_SURPLUS | FLX_PARAMS_MISSING, &err);
    if (code) {
        err.hint[0] = 0; /* it names a flag of C */
        status = report(&err, path);
        hint("--values names a file of parameters; --init SEED makes new ones, also of those that it lacks");
    }
    free(beside);
    return status;
}

/* From the file of --values, the model or beside it; initialised with a seed where that was asked for, with --values
   those that its file lacks. */
static int read_values(request *q, const flx_graph *g, const model *m, const args *a, flx_params **set)
{
    flx_error err = {0};
    const char *seed = args_value(a, "--init");
    int64_t number = 0;
    if (seed && !read_i64(seed, &number))
        return fail(FLX_E_USAGE, "--init %s: an integer is needed", seed);
    *set = flx_params_of(g, (uint64_t)number, &err);
    q->o.values = *set;
    if (!*set)
        return report(&err, m->name);
    const char *named = args_value(a, "--values");
    return seed && !named ? STATUS_OK : load_values(*set, g, m, named, seed != NULL);
}

/* ---- Results ---- */

static void json_measure(json *j, const char *key, int64_t value)
{
    if (value >= 0)
        json_integer(j, key, value);
    else
        json_text(j, key, NULL);
}

static void print_sizes(const request *q, const flx_build_sizes *s, const build_measures *m, bool as_json)
{
    if (as_json) {
        json j = {0};
        json_object_begin(&j, NULL);
        json_text(&j, "file", q->out);
        json_integer(&j, "text_bytes", s->text_bytes);
        json_unsigned(&j, "functions", s->num_functions);
        json_integer(&j, "constant_bytes", s->constant_bytes);
        json_integer(&j, "arena_bytes", s->arena_bytes);
        json_integer(&j, "memory_bytes", s->memory_bytes);
        json_integer(&j, "flops", s->flops);
        json_measure(&j, "code_bytes", m->code_bytes);
        json_measure(&j, "stack_bytes", m->stack_bytes);
        json_object_end(&j);
        return;
    }
    if (strcmp(q->out, "-") == 0)
        return;
    printf("%s: %lld bytes of text, %u %s\n", q->out, (long long)s->text_bytes, s->num_functions,
           plural(s->num_functions, "function", "functions"));
    printf("constants %lld bytes, arena %lld bytes, memory %lld bytes, %lld flops\n", (long long)s->constant_bytes,
           (long long)s->arena_bytes, (long long)s->memory_bytes, (long long)s->flops);
    if (m->code_bytes >= 0)
        printf("code %lld bytes", (long long)m->code_bytes);
    if (m->stack_bytes >= 0)
        printf("%sdeepest stack %lld bytes, without that of functions of <math.h>", m->code_bytes >= 0 ? ", " : "",
               (long long)m->stack_bytes);
    if (m->code_bytes >= 0 || m->stack_bytes >= 0)
        putchar('\n');
}

static int write_files(const request *q, const flx_buffer *source, const flx_buffer *header, build_measures *m)
{
    const build_compilation c = {q->out, q->kind == OUT_TEXT ? q->header : NULL, q->kind, q->machine, q->o.threads};
    if (strcmp(q->out, "-") == 0) {
        fwrite(source->data, 1, source->size, stdout);
        return STATUS_OK;
    }
    int status = q->kind == OUT_TEXT ? output_write(q->out, source) : STATUS_OK;
    if (!status && q->header)
        status = output_write(q->header, header);
    return status || (q->kind == OUT_TEXT && !q->measures) ? status : build_compile(&c, source, m);
}

/* The header of a compiled file, which itself includes none. */
static int make_header(request *q, const flx_graph *g, flx_buffer *header, const model *m)
{
    flx_error err = {0};
    flx_buffer source = {0};
    flx_buffer_free(header);
    q->o.header = "";
    int status = flx_build_c(g, &q->o, &source, header, NULL, &err) ? report(&err, m->name) : STATUS_OK;
    flx_buffer_free(&source);
    return status;
}

static int build_graph(request *q, const flx_graph *g, const model *m, const args *a)
{
    flx_error err = {0};
    flx_buffer source = {0}, header = {0};
    flx_build_sizes sizes = {.struct_size = sizeof sizes};
    build_measures measures = {-1, -1};
    flx_params *set = NULL;
    int status = q->o.params == FLX_BUILD_EMBED ? read_values(q, g, m, a, &set) : STATUS_OK;
    if (!status && flx_build_c(g, &q->o, &source, &header, &sizes, &err))
        status = report(&err, m->name);
    if (!status && q->header && q->kind != OUT_TEXT)
        status = make_header(q, g, &header, m);
    if (!status)
        status = write_files(q, &source, &header, &measures);
    if (!status)
        print_sizes(q, &sizes, &measures, args_has(a, "--json"));
    tell_slow();
    flx_buffer_free(&source);
    flx_buffer_free(&header);
    flx_params_release(set);
    return status;
}

static int run_build(const args *a)
{
    request q = {0};
    inputs in = {0};
    model m;
    flx_error err = {0};
    int status = read_request(&q, a);
    if (status)
        return status;
    status = model_open_chosen(&m, a);
    if (!status)
        status = inputs_read_dims(&in, &m, a);
    if (!status) {
        flx_graph *g = flx_specialise(m.graph, in.dims, in.num_dims, &err);
        status = g ? build_graph(&q, g, &m, a) : report(&err, m.name);
        flx_graph_release(g);
    }
    inputs_free(&in);
    model_close(&m);
    return status;
}

static const option options[] = {
    OPTION_GRAPH,
    {"-o", "OUT", "where the C file goes; - is standard output. OUT.o, OUT.a and OUT.so are compiled,\nby $CC or cc",
     MUST_BE_GIVEN},
    {"--header", "OUT.h", "write the declarations there, and include them", MAY_BE_GIVEN},
    {"--name", "NAME", "prefix of all names; that of the graph unless given", MAY_BE_GIVEN},
    {"--with", "LIST", "more functions: grad, train:OPTIMISER", MAY_BE_GIVEN},
    {"--params", "WAY", "where parameters come from: caller (the default), embed or file", MAY_BE_GIVEN},
    {"--values", "FILE",
     "parameters to embed; m.safetensors beside m.flx, weights.safetensors of a\ntraining folder or those of an ONNX "
     "model unless given",
     MAY_BE_GIVEN},
    {"--init", "SEED",
     "embed parameters that are initialised with this seed instead; with --values\nthose that FILE lacks",
     MAY_BE_GIVEN},
    {"--rate", "NUMBER", "of train; that of the optimiser unless given", MAY_BE_GIVEN},
    {"--target", "NAME",
     "generic (the default: plain C99), or vectors of gcc and clang: neon,\nsse2, avx2, avx512, or host: the widest of "
     "this machine",
     MAY_BE_GIVEN},
    {"--threads", "KIND", "0 (the default: one thread computes a run), pthreads or openmp", MAY_BE_GIVEN},
    {"--memory", "BYTES", "an arena of at most that many bytes, such as 64K: compute values again", MAY_BE_GIVEN},
    {"--measure", NULL, "compile the text, and print the bytes of code and of the deepest stack", MAY_BE_GIVEN},
    OPTION_SET,
    OPTION_JSON,
    {0},
};

static const char *const examples[] = {
    "flx build examples/mlp.flx --set N=4 -o mlp.c --header mlp.h",
    "flx build examples/mlp.flx --set N=4 -o mlp.c --params embed --init 1 --with grad,train:adamw",
    "flx build examples/mlp.flx --set N=4 -o libmlp.a --header mlp.h --params embed --init 1",
    NULL,
};

const command command_build = {
    .name = "build",
    .operand = "FILE",
    .summary = "a graph as a C file that needs nothing but a C compiler",
    .about =
        "Writes the main graph as C99: a struct, NAME_init() and NAME_run(); with grad also NAME_grad(), and with\n"
        "train:OPTIMISER NAME_step(), which takes the steps of a trainer. The file allocates nothing, has no\n"
        "globals but constants and calls nothing but memcpy, memset and <math.h>. Symbolic extents become arguments\n"
        "unless --set gives them. A node that such a file cannot have is an error that names it.",
    .options = options,
    .examples = examples,
    .run = run_build,
};
