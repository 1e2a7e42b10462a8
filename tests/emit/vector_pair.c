/* SPDX-License-Identifier: Apache-2.0 */
/* vector_pair.c: see vector_pair.h. */
#include "emit/vector_pair.h"

#include "base/context.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_KERNELS = 512, MAX_BUFFERS = 512 };

typedef struct {
    void *const *data;
    const uint32_t *count;
    uint32_t grid[3], lanes;
} arguments;

typedef void (*kernel_fn)(const arguments *d, uint64_t begin, uint64_t end, unsigned char *scratch, uint32_t *status);

typedef struct {
    const flx_kernel *kernel;
    kernel_fn run;
    flxi_kentry entry;
    bool is_vector;
} prepared;

static prepared kernels[MAX_KERNELS];
static size_t num_kernels;
static void *object;

const char *vector_compiler = "cc", *vector_level = "-O2";

static const flxi_allocator *memory_of(const flx_kernel *k)
{
    return flxi_kernel_mem(k);
}

void *vector_compile(const char *text)
{
    static int number;
    char source[600], made[600], command[2000];
    snprintf(source, sizeof source, "%s/vectors%d.c", test_temp_dir(), ++number);
    snprintf(made, sizeof made, "%s/vectors%d.so", test_temp_dir(), number);
    FILE *f = fopen(source, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
    snprintf(command, sizeof command,
             "%s -std=gnu17 -march=native %s -ffp-contract=off -fno-math-errno -fno-strict-aliasing "
             "-fPIC -shared -w -Wno-psabi -o '%s' '%s' -lm",
             vector_compiler, vector_level, made, source);
    CHECK_MSG(system(command) == 0, "%s failed", command);
    void *handle = dlopen(made, RTLD_NOW | RTLD_LOCAL);
    CHECK_MSG(handle, "%s", dlerror());
    unlink(source);
    unlink(made);
    return handle;
}

size_t vector_prepare(flx_kernel *const *given, size_t n, const flxi_vector_options *o)
{
    flxi_kfile file;
    flxi_strbuf text;
    flx_error err = {0};
    size_t in_vectors = 0;
    CHECK(n > 0 && n <= MAX_KERNELS && num_kernels == 0);
    flxi_kfile_init(&file, &flxi_target_c, memory_of(given[0]));
    flxi_strbuf_init(&text, memory_of(given[0]));
    for (size_t i = 0; i < n; i++) {
        const char *reason;
        kernels[i] = (prepared){.kernel = given[i]};
        CHECK_OK(flxi_vector_write(&file, given[i], o, &kernels[i].entry, &reason, &err), &err);
        kernels[i].is_vector = !reason;
        in_vectors += !reason;
    }
    CHECK_OK(flxi_kfile_text(&file, &text, &err), &err);
    object = vector_compile(text.at);
    num_kernels = n;
    for (size_t i = 0; i < n; i++) {
        *(void **)&kernels[i].run = dlsym(object, kernels[i].entry.name);
        CHECK(kernels[i].run);
    }
    flxi_strbuf_free(&text);
    flxi_kfile_free(&file);
    return in_vectors;
}

void vector_forget(void)
{
    dlclose(object);
    object = NULL;
    num_kernels = 0;
}

char *vector_text(const flx_kernel *k, const flxi_vector_options *o, const char **reason)
{
    flxi_kfile file;
    flxi_kentry entry;
    flxi_strbuf text;
    flx_error err = {0};
    flxi_kfile_init(&file, &flxi_target_c, memory_of(k));
    flxi_strbuf_init(&text, memory_of(k));
    CHECK_OK(flxi_vector_write(&file, k, o, &entry, reason, &err), &err);
    CHECK_OK(flxi_kfile_text(&file, &text, &err), &err);
    char *copy = strdup(text.at);
    flxi_strbuf_free(&text);
    flxi_kfile_free(&file);
    return copy;
}

static const prepared *find(const flx_kernel *k)
{
    for (size_t i = 0; i < num_kernels; i++)
        if (kernels[i].kernel == k)
            return &kernels[i];
    return NULL;
}

flx_code vector_run(const flx_kernel *k, const uint32_t grid[3], flx_kernel_memory *memory, size_t n,
                    uint32_t subgroup_size, flx_error *err)
{
    static void *data[MAX_BUFFERS];
    static uint32_t count[MAX_BUFFERS];
    static uint64_t nothing;
    const prepared *p = find(k);
    CHECK(p && k->num_buffers <= MAX_BUFFERS);
    for (uint32_t i = 1; i <= k->num_buffers; i++) {
        const flxi_kbuffer *b = &k->buffers[i];
        data[i - 1] = &nothing;
        count[i - 1] = (uint32_t)b->count;
        for (size_t m = 0; m < n; m++)
            if (strcmp(memory[m].buffer, b->name) == 0) {
                size_t two = flxi_ktype_bytes(b->element, 2);
                data[i - 1] = memory[m].data;
                count[i - 1] = b->count ? (uint32_t)b->count : (uint32_t)(memory[m].size * 2 / two);
                if (b->flags & FLX_KERNEL_OUTPUT)
                    memset(memory[m].data, 0, memory[m].size);
            }
    }
    arguments a = {data, count, {grid[0], grid[1], grid[2]}, subgroup_size ? subgroup_size : 32};
    uint64_t groups = (uint64_t)grid[0] * grid[1] * grid[2], middle = groups * 2 / 5;
    uint32_t status[KSTATUS_WORDS] = {0};
    unsigned char *scratch = aligned_alloc(64, p->entry.scratch / 64 * 64 + 64);
    p->run(&a, 0, middle, scratch, status);
    if (!status[KSTATUS_TRAPPED])
        p->run(&a, middle, groups, scratch, status);
    free(scratch);
    return status[KSTATUS_TRAPPED] ? flxi_fail(err, FLX_E_DEVICE, "trapped") : FLX_OK;
}
