/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_bench.c: `flx bench`: how long compiling and running take, and how much memory.

   A compiled graph runs on memory that is there already, so that nothing but the graph is measured. The median of the
   runs is the result; the spread is the distance of the quartiles in parts of the median. */
#include "args.h"
#include "command/cmd_devices.h"
#include "commands.h"
#include "compiling.h"
#include "io/inputs.h"
#include "io/json_writer.h"
#include "io/load.h"
#include "io/output.h"
#include "io/profile_table.h"
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { USUAL_REPEAT = 20, LEAST_REPEAT = 3, MAX_REPEAT = 1000000 };

typedef struct {
    const model *model;
    const char *device;
    flx_compile_options options;
    inputs in;
    size_t num_outputs;
    flx_tensor **outputs;
    flx_exec *exec; /* NULL: the device compiles nothing */
    double cold;    /* seconds */
    double cached;  /* seconds; negative: there is no cache */
    size_t repeat;
    double budget;     /* seconds after which no run begins, except the first ones; 0: there is none */
    double *seconds;   /* of each run, ascending in the end */
    double processor;  /* the least processor time of a run, of all threads; seconds */
    int64_t flops;     /* of a run; 0: not known */
    int64_t bytes;     /* likewise */
    const void **read; /* addresses of inputs and outputs */
    void **written;
} bench;

/* ---- Compiling ---- */

static bool has_cache(const bench *b)
{
    const char *said = getenv("FLX_CACHE");
    bool is_off = b->options.cache == FLX_CACHE_OFF;
    return said && said[0] ? strcmp(said, "on") == 0 || strcmp(said, "read-only") == 0 : !is_off;
}

static int compile_timed(bench *b, int32_t cache, double *seconds)
{
    flx_compile_options options = b->options;
    flx_error err = {0};
    options.cache = cache;
    options.dims = b->in.dims;
    options.num_dims = b->in.num_dims;
    flx_exec_free(b->exec);
    b->exec = NULL;
    double start = clock_seconds();
    b->exec = flx_compile(b->model->graph, &options, &err);
    *seconds = clock_seconds() - start;
    return b->exec ? STATUS_OK : compiling_failed(&err);
}

static int compile(bench *b)
{
    int status = compile_timed(b, FLX_CACHE_OFF, &b->cold);
    b->cached = -1;
    for (int i = 0; !status && has_cache(b) && i < 2; i++) /* the first fills the cache */
        status = compile_timed(b, b->options.cache, &b->cached);
    return status;
}

/* ---- Running ---- */

static flx_run_options run_options(const bench *b)
{
    return (flx_run_options){
        .struct_size = sizeof(flx_run_options), .device = b->device, .dims = b->in.dims, .num_dims = b->in.num_dims};
}

static flx_code run_reference(bench *b, flx_error *err)
{
    flx_run_options options = run_options(b);
    for (size_t i = 0; i < b->num_outputs; i++) {
        flx_tensor_release(b->outputs[i]);
        b->outputs[i] = NULL;
    }
    return flx_run(b->model->graph, &options, b->in.feeds, b->in.num_feeds, b->outputs, err);
}

static flx_code run_compiled(bench *b, flx_error *err)
{
    return flx_exec_run_at(b->exec, b->read, b->written, err);
}

/* Runs once for the outputs, and to learn how much work it is. */
static flx_code run_first(bench *b, flx_error *err)
{
    flx_run_options options = run_options(b);
    size_t room = compiling_steps(b->exec), n = 0;
    flx_step_time *steps = calloc(room + 1, sizeof *steps);
    if (!steps) {
        *err = (flx_error){.code = FLX_E_OOM, .message = "out of memory"};
        return FLX_E_OOM;
    }
    flx_code code = flx_exec_profile(b->exec, &options, b->in.feeds, b->in.num_feeds, b->outputs, steps, room, &n, err);
    n = n < room ? n : room;
    for (size_t i = 0; code == FLX_OK && i < n; i++) {
        bool has_inside = i + 1 < n && steps[i + 1].depth > steps[i].depth; /* which counts what it does itself */
        b->flops += steps[i].flops * steps[i].runs;
        b->bytes += has_inside ? 0 : steps[i].bytes * steps[i].runs;
    }
    for (size_t i = 0; i < b->in.num_feeds; i++)
        b->read[i] = flx_tensor_const_data(b->in.values[i]);
    for (size_t i = 0; code == FLX_OK && i < b->num_outputs; i++)
        b->written[i] = flx_tensor_data(b->outputs[i]);
    free(steps);
    return code;
}

static void show_progress(size_t done, size_t all)
{
    enum { WIDTH = 40 };
    if (!isatty(STDERR_FILENO))
        return;
    size_t filled = done * WIDTH / all;
    fputs("\r[", stderr);
    for (size_t i = 0; i < WIDTH; i++)
        fputc(i < filled ? '#' : '.', stderr);
    fprintf(stderr, "] %zu of %zu runs", done, all);
    if (done == all)
        fputs("\r\033[K", stderr);
    fflush(stderr);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int measure(bench *b)
{
    flx_error err = {0};
    if (b->exec && b->options.memory_budget)
        compiling_tell_memory(b->exec);
    flx_code code = b->exec ? run_first(b, &err) : FLX_OK;
    flx_code (*run)(bench *, flx_error *) = b->exec ? run_compiled : run_reference;
    if (code == FLX_OK)
        code = run(b, &err); /* memory that is touched for the first time is slow */
    double begin = clock_seconds();
    b->processor = INFINITY;
    for (size_t i = 0; code == FLX_OK && i < b->repeat; i++) {
        double start = clock_seconds(), processor = processor_seconds();
        if (b->budget > 0 && i >= LEAST_REPEAT && start - begin >= b->budget) {
            b->repeat = i;
            break;
        }
        code = run(b, &err);
        b->seconds[i] = clock_seconds() - start;
        b->processor = fmin(b->processor, processor_seconds() - processor);
        if (b->budget <= 0)
            show_progress(i + 1, b->repeat);
    }
    if (code)
        return report(&err, NULL);
    qsort(b->seconds, b->repeat, sizeof *b->seconds, by_size);
    return STATUS_OK;
}

/* ---- Telling ---- */

typedef struct {
    double median, best, low, high, spread; /* low and high: the quartiles */
    size_t inputs, outputs, work, peak;     /* bytes */
} figures;

/* The quantile of the sorted times, interpolated between two of them. */
static double quantile(const bench *b, double part)
{
    double position = part * (double)(b->repeat - 1);
    size_t i = (size_t)position;
    double below = b->seconds[i], above = b->seconds[i + 1 < b->repeat ? i + 1 : i];
    return below + (position - (double)i) * (above - below);
}

static figures figures_of(const bench *b)
{
    figures f = {
        .median = quantile(b, 0.5), .best = b->seconds[0], .low = quantile(b, 0.25), .high = quantile(b, 0.75)};
    f.spread = f.median > 0 ? (f.high - f.low) / f.median : 0;
    f.work = flx_exec_memory(b->exec);
    for (size_t i = 0; i < b->in.num_feeds; i++)
        f.inputs += flx_tensor_nbytes(b->in.values[i]);
    for (size_t i = 0; i < b->num_outputs; i++)
        f.outputs += flx_tensor_nbytes(b->outputs[i]);
    f.peak = f.inputs + f.outputs + f.work;
    return f;
}

static double per_second(int64_t amount, double seconds)
{
    return seconds > 0 ? (double)amount / seconds : 0;
}

static void print_text(const bench *b, const figures *f)
{
    char text[4][24];
    printf("device: %s\n", b->device);
    if (b->exec) {
        printf("compile: %.3f ms", 1e3 * b->cold);
        if (b->cached < 0)
            puts("; there is no cache");
        else
            printf("; %.3f ms from the cache\n", 1e3 * b->cached);
    }
    printf("run: %.4f ms, the median of %zu; best %.4f ms, spread %.1f%% (quartiles %.4f and %.4f ms)\n",
           1e3 * f->median, b->repeat, 1e3 * f->best, 100 * f->spread, 1e3 * f->low, 1e3 * f->high);
    printf("memory: %s: inputs %s, outputs %s", scaled_text(text[0], (double)f->peak, "B"),
           scaled_text(text[1], (double)f->inputs, "B"), scaled_text(text[2], (double)f->outputs, "B"));
    printf(b->exec ? ", work %s\n" : "; what the evaluator takes is not known\n",
           scaled_text(text[3], (double)f->work, "B"));
    if (b->exec)
        printf("speed: %.3f GFLOP/s, %.3f GB/s (%s and %s in a run, at least)\n",
               1e-9 * per_second(b->flops, f->median), 1e-9 * per_second(b->bytes, f->median),
               scaled_text(text[0], (double)b->flops, "FLOP"), scaled_text(text[1], (double)b->bytes, "B"));
}

static void json_optional_count(json *j, const char *key, bool is_known, int64_t value)
{
    if (is_known)
        json_integer(j, key, value);
    else
        json_text(j, key, NULL);
}

static void json_optional(json *j, const char *key, bool is_known, double value)
{
    if (is_known)
        json_number(j, key, value, 24);
    else
        json_text(j, key, NULL);
}

static void print_json(const bench *b, const figures *f)
{
    json j = {0};
    json_object_begin(&j, NULL);
    json_text(&j, "graph", flx_graph_name(b->model->graph));
    json_text(&j, "device", b->device);
    json_optional(&j, "compile_ms", b->exec, 1e3 * b->cold);
    json_optional(&j, "cached_compile_ms", b->exec && b->cached >= 0, 1e3 * b->cached);
    json_unsigned(&j, "repeat", b->repeat);
    json_number(&j, "median_ms", 1e3 * f->median, 24);
    json_number(&j, "best_ms", 1e3 * f->best, 24);
    json_number(&j, "processor_ms", 1e3 * b->processor, 24);
    json_number(&j, "low_quartile_ms", 1e3 * f->low, 24);
    json_number(&j, "high_quartile_ms", 1e3 * f->high, 24);
    json_number(&j, "spread", f->spread, 24);
    json_unsigned(&j, "memory_bytes", f->peak);
    json_unsigned(&j, "input_bytes", f->inputs);
    json_unsigned(&j, "output_bytes", f->outputs);
    json_optional_count(&j, "work_bytes", b->exec, (int64_t)f->work);
    json_optional_count(&j, "flops", b->exec, b->flops);
    json_optional_count(&j, "bytes", b->exec, b->bytes);
    json_optional(&j, "gflop_per_s", b->exec, 1e-9 * per_second(b->flops, f->median));
    json_optional(&j, "gb_per_s", b->exec, 1e-9 * per_second(b->bytes, f->median));
    json_object_end(&j);
}

/* ---- The command ---- */

static int read_repeat(const args *a, bench *b)
{
    const char *text = args_value(a, "--repeat"), *seconds = args_value(a, "--seconds");
    int64_t n = seconds ? MAX_REPEAT : USUAL_REPEAT;
    if (text && (!read_i64(text, &n) || n < 1 || n > MAX_REPEAT))
        return fail(FLX_E_USAGE, "--repeat must be an integer between 1 and %d, got '%s'", MAX_REPEAT, text);
    if (seconds && (!read_number(seconds, &b->budget) || !(b->budget > 0 && b->budget <= 1e6)))
        return fail(FLX_E_USAGE, "--seconds must be a number above 0, up to 1000000, got '%s'", seconds);
    b->repeat = (size_t)n;
    return STATUS_OK;
}

static int write_outputs(const bench *b, const char *folder)
{
    int status = output_make_folder(folder);
    for (size_t i = 0; !status && i < b->num_outputs; i++)
        status = output_write_npy(folder, flx_graph_output_name(b->model->graph, i), b->outputs[i]);
    return status;
}

static int bench_model(bench *b, const args *a)
{
    b->num_outputs = flx_graph_output_count(b->model->graph);
    b->outputs = calloc(b->num_outputs + 1, sizeof *b->outputs);
    b->written = calloc(b->num_outputs + 1, sizeof *b->written);
    b->read = calloc(flx_graph_input_count(b->model->graph) + 1, sizeof *b->read);
    b->seconds = calloc(b->repeat, sizeof *b->seconds);
    if (!b->outputs || !b->written || !b->read || !b->seconds)
        return fail_memory();
    int status = inputs_read(&b->in, b->model, a, MISSING_IS_FILLED);
    if (!status && strcmp(b->device, "ref") != 0)
        status = compile(b);
    if (!status)
        status = measure(b);
    if (!status && args_has(a, "--out"))
        status = write_outputs(b, args_value(a, "--out"));
    if (status)
        return status;
    tell_slow();
    figures f = figures_of(b);
    if (args_has(a, "--json"))
        print_json(b, &f);
    else
        print_text(b, &f);
    return STATUS_OK;
}

static void bench_free(bench *b)
{
    for (size_t i = 0; b->outputs && i < b->num_outputs; i++)
        flx_tensor_release(b->outputs[i]);
    free(b->outputs);
    free(b->written);
    free(b->read);
    free(b->seconds);
    flx_exec_free(b->exec);
    inputs_free(&b->in);
}

static int run_bench(const args *a)
{
    bench b = {0};
    int status = device_choose(args_value(a, "--device"), &b.device);
    if (!status)
        status = compiling_read(a, b.device, &b.options);
    if (!status)
        status = read_repeat(a, &b);
    if (status)
        return status;
    model m;
    status = model_open_chosen(&m, a);
    b.model = &m;
    if (!status)
        status = bench_model(&b, a);
    bench_free(&b);
    model_close(&m);
    return status;
}

static const option options[] = {
    OPTION_GRAPH,
    OPTION_DEVICE,
    {"--repeat", "R", "how often to run; 20 times unless given", MAY_BE_GIVEN},
    {"--seconds", "S", "run for about S seconds, at least 3 times, and at most R times if\n--repeat is given",
     MAY_BE_GIVEN},
    OPTION_IN,
    OPTION_VALUES,
    {"--out", "DIR", "write each output of the last run as DIR/NAME.npy", MAY_BE_GIVEN},
    OPTION_SET,
    OPTION_MEMORY,
    OPTION_THREADS,
    OPTION_NO_GROUPING,
    OPTION_NO_COMPILER,
    OPTION_CACHE,
    OPTION_FLUSH,
    OPTION_FAST,
    OPTION_DUMP,
    OPTION_JSON,
    {0},
};

static const char *const examples[] = {
    "flx bench examples/mlp.flx --set N=64",
    "flx bench examples/heat.flx --set STEPS=10 --set N=1000 --repeat 100 --threads 1",
    "flx bench examples/newton.flx --in x=2 --device ref --json",
    NULL,
};

const command command_bench = {
    .name = "bench",
    .operand = "FILE",
    .summary = "measure how long a graph takes to compile and to run",
    .about = "Compiles the main graph of the file without and with the cache of compiled objects, runs it many times\n"
             "on the same inputs and prints the time to compile, the median time of a run, the fastest, the spread\n"
             "(the distance of the quartiles in parts of the median), the memory of inputs, outputs and the work\n"
             "between, and the speed: floating point operations and bytes read and written per second, as far as\n"
             "the ops tell them. Inputs that are not given are filled: floating ones are normal, others zeros.\n"
             "\n" ABOUT_SPEC,
    .options = options,
    .examples = examples,
    .run = run_bench,
};
