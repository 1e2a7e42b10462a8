/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_file.c: reading kernels and the contents of their buffers, and writing both. */
#include "kernel/kernel_file.h"

#include "io/output.h"
#include "io/spec.h"
#include "io/summary.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The kernel ---- */

/* The wire form does not promise validity; text is validated when it is read. */
static int check_valid(const kernel_file *f)
{
    flx_kernel_finding first;
    size_t found = 0;
    flx_error err = {0};
    if (flx_kernel_validate(f->kernel, NULL, &first, 1, &found, &err) == FLX_OK)
        return STATUS_OK;
    return report(&err, f->name);
}

static int read_bytes(kernel_file *f, const char *path, bool *is_wire)
{
    *f = (kernel_file){.name = file_name(path), .ctx = new_context()};
    if (!f->ctx)
        return fail_memory();
    int status = file_read(path, &f->bytes);
    if (status)
        return status;
    *is_wire = begins_with(&f->bytes, KERNEL_MAGIC);
    if (!begins_with(&f->bytes, GRAPH_MAGIC))
        return STATUS_OK;
    status = fail(FLX_E_SYNTAX, "%s is a graph in binary form", f->name);
    hint("flx check and flx run read it");
    return status;
}

int kernel_open(kernel_file *f, const char *path)
{
    bool is_wire;
    flx_error err = {0};
    int status = read_bytes(f, path, &is_wire);
    if (status)
        return status;
    if (is_wire) {
        f->kernel = flx_kernel_decode(f->ctx, f->bytes.data, f->bytes.size, &err);
        return f->kernel ? check_valid(f) : report(&err, f->name);
    }
    f->kernel = flx_kernel_parse(f->ctx, f->bytes.data, f->bytes.size, "file", &err);
    return f->kernel ? STATUS_OK : report(&err, f->name);
}

enum { MAX_FINDINGS = 100 };

/* Those of text have a position in it, those of the wire form a path. */
static void tell_finding(const kernel_file *f, const flx_kernel_finding *x)
{
    size_t line = 1, column = 1;
    for (const char *s = f->bytes.data; x->position && s < f->bytes.data + x->position - 1; s++) {
        column = *s == '\n' ? 1 : column + 1;
        line += *s == '\n';
    }
    char where[200];
    if (x->position)
        snprintf(where, sizeof where, ":%zu:%zu", line, column);
    else
        snprintf(where, sizeof where, ": in %s", x->path);
    report_finding(f->name, where, x);
}

static int tell_findings(const kernel_file *f, const flx_kernel_finding *findings, size_t found, size_t *warnings)
{
    int status = STATUS_OK;
    *warnings = 0;
    for (size_t i = 0; i < found && i < MAX_FINDINGS; i++) {
        tell_finding(f, &findings[i]);
        *warnings += findings[i].is_warning != 0;
        if (!findings[i].is_warning)
            status = STATUS_BAD_INPUT;
    }
    if (found > MAX_FINDINGS)
        note("and %zu more", found - MAX_FINDINGS);
    return status;
}

int kernel_open_checked(kernel_file *f, const char *path, size_t *warnings)
{
    bool is_wire;
    flx_error err = {0};
    int status = read_bytes(f, path, &is_wire);
    if (status)
        return status;
    flx_kernel_finding *findings = calloc(MAX_FINDINGS, sizeof *findings);
    size_t found = 0;
    if (!findings)
        return fail_memory();
    if (is_wire && (f->kernel = flx_kernel_decode(f->ctx, f->bytes.data, f->bytes.size, &err)) != NULL)
        flx_kernel_validate(f->kernel, NULL, findings, MAX_FINDINGS, &found, &err);
    else if (!is_wire)
        f->kernel = flx_kernel_parse_findings(f->ctx, f->bytes.data, f->bytes.size, "file", findings, MAX_FINDINGS,
                                              &found, &err);
    status = tell_findings(f, findings, found, warnings);
    free(findings);
    return status || !err.code ? status : report(&err, f->name);
}

void kernel_close(kernel_file *f)
{
    flx_kernel_release(f->kernel);
    free(f->bytes.data);
    flx_context_free(f->ctx);
    *f = (kernel_file){0};
}

int kernel_write_text(const flx_buffer *text, const args *a)
{
    const char *path = args_value(a, "-o");
    if (path && strcmp(path, "-") != 0)
        return output_write(path, text);
    fwrite(text->data, 1, text->size, stdout);
    return STATUS_OK;
}

int kernel_write(const flx_kernel *k, const args *a)
{
    const char *path = args_value(a, "-o");
    size_t n = path ? strlen(path) : 0;
    bool is_wire = n >= 5 && strcmp(path + n - 5, ".flkb") == 0;
    flx_buffer bytes = {0};
    flx_error err = {0};
    if (is_wire ? flx_kernel_encode(k, &bytes, &err) : flx_kernel_print(k, &bytes, &err))
        return report(&err, NULL);
    int status = kernel_write_text(&bytes, a);
    flx_buffer_free(&bytes);
    return status;
}

/* ---- Buffers ---- */

int grid_read(const args *a, uint32_t grid[3])
{
    const char *text = args_value(a, "--grid");
    if (!text) {
        int status = fail(FLX_E_USAGE, "flx %s needs --grid X[,Y,Z]", a->command->name);
        hint("how many workgroups to run; with workgroups of 64, --grid 4 runs 256 invocations");
        return status;
    }
    for (int i = 0; i < 3; i++) {
        grid[i] = 1;
        if (i > 0 && *text == 0)
            continue;
        char *end;
        unsigned long long n = strtoull(text, &end, 10);
        bool is_number = *text >= '0' && *text <= '9' && n <= UINT32_MAX;
        if (!is_number || (*end != 0 && (*end != ',' || i == 2)))
            return fail(FLX_E_USAGE, "--grid must have the form X[,Y,Z], got '%s'", args_value(a, "--grid"));
        grid[i] = (uint32_t)n;
        text = end + (*end == ',');
        if (*end == ',' && *text == 0)
            return fail(FLX_E_USAGE, "--grid must have the form X[,Y,Z], got '%s'", args_value(a, "--grid"));
    }
    return STATUS_OK;
}

/* Tensors have the kernel's arithmetic types; what they lack is held as bytes. */
static int32_t tensor_dtype(uint32_t element)
{
    return flx_dtype_size((int32_t)element) ? (int32_t)element : FLX_U8;
}

static bool is_packed(uint32_t element)
{
    return element >= FLX_KERNEL_I4 && element <= FLX_KERNEL_NF4;
}

static bool is_bound(const flx_kernel_buffer *b)
{
    return b->access != FLX_KERNEL_WORKGROUP && b->access != FLX_KERNEL_PRIVATE;
}

buffer_value *values_find(buffer_values *v, const char *name)
{
    for (size_t i = 0; i < v->count; i++)
        if (strcmp(v->at[i].name, name) == 0)
            return &v->at[i];
    return NULL;
}

void values_free(buffer_values *v)
{
    for (size_t i = 0; v->at && i < v->count; i++) {
        flx_tensor_release(v->at[i].value);
        free(v->at[i].words);
        free((char *)(uintptr_t)v->at[i].name);
    }
    free(v->at);
    *v = (buffer_values){0};
}

static int add_value(buffer_values *v, const char *name, const flx_kernel_buffer *declared)
{
    char *copy = strdup(name);
    if (!copy)
        return fail_memory();
    v->at[v->count++] = (buffer_value){.name = copy, .declared = *declared};
    return STATUS_OK;
}

static int make_zeros(const kernel_file *f, buffer_value *b, uint64_t count)
{
    flx_error err = {0};
    if (count > INT64_MAX)
        return fail(FLX_E_SIZE, "buffer '%s' is too large", b->name);
    flx_dim elements = (flx_dim)(is_packed(b->declared.element) ? count / 2 + count % 2 : count);
    flx_type type = flx_type_make((flx_dtype)tensor_dtype(b->declared.element), 1, &elements);
    b->value = flx_tensor_new(f->ctx, &type, NULL, &err);
    return b->value ? STATUS_OK : report(&err, NULL);
}

static int fill(const kernel_file *f, buffer_value *b, const char *spec)
{
    int32_t dtype = tensor_dtype(b->declared.element);
    if (spec_has_shape(spec))
        return spec_read(f->ctx, b->name, spec, dtype, &b->value);
    if (b->declared.count == 0) {
        int status = fail(FLX_E_USAGE, "buffer '%s' has an open length, which '%s' does not show", b->name, spec);
        hint("give a file, or say --length %s=N", b->name);
        return status;
    }
    flx_dim count = (flx_dim)b->declared.count;
    flx_type type = flx_type_make((flx_dtype)dtype, 1, &count);
    return spec_fill(f->ctx, b->name, spec, &type, &b->value);
}

/* A file must hold what the declaration says. */
static int check_count(const buffer_value *b)
{
    uint64_t held = (uint64_t)flx_tensor_count(b->value);
    uint64_t want = is_packed(b->declared.element) ? (b->declared.count + 1) / 2 : b->declared.count;
    if (b->declared.count == 0 || held == want)
        return STATUS_OK;
    return fail(FLX_E_SHAPE, "buffer '%s' has %llu %s, its value %llu", b->name, (unsigned long long)want,
                plural((int64_t)want, "element", "elements"), (unsigned long long)held);
}

static int unknown_name(const buffer_values *v, const char *option_name, const char *name)
{
    int status = fail(FLX_E_NAME, "%s: the kernel has no buffer '%s'", option_name, name);
    hint_list_begin("its buffers are");
    for (size_t i = 0; i < v->count; i++)
        list_item(v->at[i].name);
    hint_list_end();
    return status;
}

static int read_lengths(buffer_values *v, const args *a)
{
    const char *text;
    int status = STATUS_OK;
    for (size_t at = 0; !status && (text = args_next(a, "--length", &at)) != NULL;) {
        char *name = NULL;
        const char *rest;
        int64_t n = 0;
        status = args_split("--length", text, "NAME=N", &name, &rest);
        buffer_value *b = status ? NULL : values_find(v, name);
        if (!status && !b)
            status = unknown_name(v, "--length", name);
        else if (!status && (!read_i64(rest, &n) || n < 0 || n > UINT32_MAX))
            status = fail(FLX_E_USAGE, "--length must be a nonnegative integer, got '%s'", rest);
        else if (!status && b->declared.count)
            status = fail(FLX_E_USAGE, "--length: buffer '%s' has a fixed length", name);
        if (!status)
            b->declared.count = (uint64_t)n;
        free(name);
    }
    return status;
}

static int read_contents(buffer_values *v, const kernel_file *f, const args *a)
{
    const char *text;
    int status = STATUS_OK;
    for (size_t at = 0; !status && (text = args_next(a, "--in", &at)) != NULL;) {
        char *name = NULL;
        const char *spec;
        status = args_split("--in", text, "NAME=SPEC", &name, &spec);
        buffer_value *b = status ? NULL : values_find(v, name);
        if (!status && !b)
            status = unknown_name(v, "--in", name);
        if (!status)
            status = fill(f, b, spec);
        if (!status)
            status = check_count(b);
        free(name);
    }
    return status;
}

static int add_derivatives(buffer_values *v, const flx_kernel_derived *d)
{
    int status = STATUS_OK;
    flx_kernel_need need;
    for (size_t i = 0; !status && flx_kernel_derived_need(d, i, &need) == FLX_OK; i++) {
        buffer_value *b = values_find(v, need.forward);
        if ((need.role != FLX_KERNEL_COTANGENT && need.role != FLX_KERNEL_GRADIENT) || !b)
            continue;
        flx_kernel_buffer declared = b->declared;
        declared.element = need.element;
        status = add_value(v, need.buffer, &declared);
        if (!status) {
            v->at[v->count - 1].forward = need.forward;
            v->at[v->count - 1].role = need.role;
        }
    }
    return status;
}

int values_read(buffer_values *v, const kernel_file *f, const args *a, const uint32_t grid[3],
                const flx_kernel_derived *derived)
{
    size_t n = flx_kernel_buffer_count(f->kernel);
    uint32_t size[3];
    flx_kernel_workgroup_size(f->kernel, size);
    size_t room = n + (derived ? flx_kernel_derived_need_count(derived) : 0) + 1;
    *v = (buffer_values){.at = calloc(room, sizeof *v->at), .invocations = 1};
    if (!v->at)
        return fail_memory();
    for (int i = 0; i < 3; i++)
        if (__builtin_mul_overflow(v->invocations, (uint64_t)grid[i] * size[i], &v->invocations))
            return fail(FLX_E_SIZE, "the grid has too many invocations");
    int status = STATUS_OK;
    for (size_t i = 0; !status && i < n; i++) {
        flx_kernel_buffer b = {.struct_size = sizeof b};
        flx_kernel_buffer_at(f->kernel, i, &b);
        if (is_bound(&b))
            status = add_value(v, b.name, &b);
    }
    if (!status && derived)
        status = add_derivatives(v, derived);
    if (!status)
        status = read_lengths(v, a);
    return status ? status : read_contents(v, f, a);
}

int values_zero(buffer_values *v, const kernel_file *f, buffer_value *b)
{
    if (b->value)
        return STATUS_OK;
    return make_zeros(f, b, b->declared.count ? b->declared.count : v->invocations);
}

buffer_value *values_derivative(buffer_values *v, const char *buffer, uint32_t role)
{
    for (size_t i = 0; i < v->count; i++)
        if (v->at[i].forward && v->at[i].role == role && strcmp(v->at[i].forward, buffer) == 0)
            return &v->at[i];
    return NULL;
}

int values_zero_derivative(buffer_values *v, const kernel_file *f, buffer_value *b)
{
    if (b->value)
        return STATUS_OK;
    const buffer_value *forward = values_find(v, b->forward);
    uint64_t count = forward->value ? (uint64_t)flx_tensor_count(forward->value) : forward->declared.count;
    return make_zeros(f, b, count ? count : v->invocations);
}

/* In a kernel's buffer a bool takes a word. */
static int widen_bools(buffer_value *b)
{
    size_t n = (size_t)flx_tensor_count(b->value);
    const uint8_t *bytes = flx_tensor_const_data(b->value);
    b->words = calloc(n + 1, sizeof *b->words);
    if (!b->words)
        return fail_memory();
    for (size_t i = 0; i < n; i++)
        b->words[i] = bytes[i];
    return STATUS_OK;
}

int values_memory(buffer_values *v, flx_kernel_memory *memory, size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < v->count; i++) {
        buffer_value *b = &v->at[i];
        if (!b->value)
            continue;
        memory[*n] = (flx_kernel_memory){b->name, flx_tensor_data(b->value), flx_tensor_nbytes(b->value)};
        if (b->declared.element == FLX_BOOL) {
            int status = widen_bools(b);
            if (status)
                return status;
            memory[*n].data = b->words;
            memory[*n].size = (size_t)flx_tensor_count(b->value) * sizeof *b->words;
        }
        ++*n;
    }
    return STATUS_OK;
}

int values_take(buffer_values *v)
{
    for (size_t i = 0; i < v->count; i++) {
        buffer_value *b = &v->at[i];
        if (!b->words)
            continue;
        uint8_t *bytes = flx_tensor_data(b->value);
        for (size_t k = 0; k < (size_t)flx_tensor_count(b->value); k++)
            bytes[k] = b->words[k] != 0;
    }
    return STATUS_OK;
}

int value_tell(const kernel_file *f, const args *a, const buffer_value *b)
{
    const char *folder = args_value(a, "--out");
    if (!folder) {
        summary_text(f->ctx, b->name, b->value, false);
        return STATUS_OK;
    }
    int status = output_make_folder(folder);
    return status ? status : output_write_npy(folder, b->name, b->value);
}
