/* SPDX-License-Identifier: Apache-2.0 */
/* compiling.c: see compiling.h. */
#include "compiling.h"

#include "io/output.h"
#include "io/profile_table.h"
#include "report.h"

#include <string.h>
#include <time.h>

static const char *const option_names[] = {"--threads", "--no-grouping", "--no-compiler", "--cache",  "--memory",
                                           "--flush",   "--fast",        "--dump",        "--record", NULL};

static int read_threads(const char *text, flx_compile_options *o)
{
    int64_t n;
    if (!read_i64(text, &n) || n < 1 || n > 64)
        return fail(FLX_E_USAGE, "--threads must be an integer between 1 and 64, got '%s'", text);
    o->threads = (int32_t)n;
    return STATUS_OK;
}

static int read_cache(const char *text, flx_compile_options *o)
{
    static const char *const modes[] = {"on", "read-only", "off"};
    for (int32_t i = 0; i < 3; i++) {
        if (strcmp(modes[i], text) == 0) {
            o->cache = i;
            return STATUS_OK;
        }
    }
    int status = fail(FLX_E_USAGE, "'%s' is not a valid mode for --cache", text);
    hint("modes: on, read-only, off");
    return status;
}

int compiling_read_memory(const args *a, int64_t *budget)
{
    const char *text = args_value(a, "--memory");
    if (text && !read_amount(text, budget))
        return fail(FLX_E_USAGE, "--memory must be a number of bytes above 0, such as 64M or 2G, got '%s'", text);
    return STATUS_OK;
}

int compiling_read(const args *a, const char *device, flx_compile_options *o)
{
    *o = (flx_compile_options){.struct_size = sizeof *o};
    if (strcmp(device, "ref") != 0)
        o->device = device;
    for (const char *const *name = option_names; *name && strcmp(device, "ref") == 0; name++)
        if (args_has(a, *name))
            return fail(FLX_E_USAGE, "%s has no effect with device %s, which compiles nothing", *name, device);
    const char *threads = args_value(a, "--threads"), *cache = args_value(a, "--cache");
    int status = threads ? read_threads(threads, o) : STATUS_OK;
    if (!status)
        status = compiling_read_memory(a, &o->memory_budget);
    if (!status && cache)
        status = read_cache(cache, o);
    if (args_has(a, "--no-grouping"))
        o->flags |= FLX_COMPILE_UNGROUPED;
    if (args_has(a, "--no-compiler"))
        o->flags |= FLX_COMPILE_INTERPRET;
    if (args_has(a, "--flush"))
        o->flags |= FLX_COMPILE_FLUSH;
    if (args_has(a, "--fast"))
        o->flags |= FLX_COMPILE_FAST;
    o->dump_dir = args_value(a, "--dump");
    o->record_path = args_value(a, "--record");
    if (!status && o->dump_dir && args_has(a, "--no-compiler"))
        note("--dump has no effect with --no-compiler: there is no C text");
    else if (!status && o->dump_dir)
        status = output_make_folder(o->dump_dir);
    return status;
}

bool compiling_is_chosen(const args *a)
{
    for (const char *const *name = option_names; *name; name++)
        if (args_has(a, *name))
            return true;
    return false;
}

int compiling_failed(const flx_error *err)
{
    int status = report(err, NULL);
    return err->code == FLX_E_IO ? STATUS_SYSTEM : status;
}

void compiling_tell_memory(const flx_exec *e)
{
    char text[4][24];
    flx_memory_plan p = {.struct_size = sizeof p};
    if (flx_exec_memory_plan(e, &p, NULL) || !p.bytes) /* the extents are not known yet */
        return;
    note("a run works in %llu bytes (%s)%s%s; %u %s computed again, %s", (unsigned long long)p.bytes,
         scaled_text(text[0], (double)p.bytes, "B"), p.usual_bytes > p.bytes ? " instead of " : "",
         p.usual_bytes > p.bytes ? scaled_text(text[1], (double)p.usual_bytes, "B") : "", (unsigned)p.recomputed,
         plural(p.recomputed, "value is", "values are"), scaled_text(text[2], (double)p.flops, "FLOP"));
}

size_t compiling_steps(const flx_exec *e)
{
    flx_step step;
    size_t n = 0;
    while (flx_exec_step(e, n, &step) == FLX_OK)
        n++;
    return n;
}

double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
