/* SPDX-License-Identifier: Apache-2.0 */
/* pjrt_error.c: error objects. An error begins with a table of functions, which newer callers use instead of the slots.
   That memory is exhausted is reported by an object that needs none. */
#include "pjrt/pjrt.h"

#include "base/text/count_words.h"

#include <stdarg.h>

const flxi_allocator flxi_pjrt_mem = {flxi_default_alloc, NULL};

struct pjrt_error {
    const pjrt_error_table *table;
    int32_t code;
    size_t size;
    const char *text; /* after the struct, ended by a 0 */
};

static void error_text(const pjrt_error *e, const char **text, size_t *size)
{
    *text = e->text;
    *size = e->size;
}

static int32_t error_code(const pjrt_error *e)
{
    return e->code;
}

static void no_payload(const pjrt_error *e, void *visitor, void *user)
{
    (void)e;
    (void)visitor;
    (void)user;
}

static const pjrt_error_table error_table = {
    .struct_size = sizeof(pjrt_error_table),
    .instance_size = sizeof(const pjrt_error_table *),
    .destroy = flxi_pjrt_error_free,
    .message = error_text,
    .code = error_code,
    .for_each_payload = no_payload,
};

static const char no_memory_text[] = "out of memory";
static pjrt_error no_memory = {&error_table, PJRT_RESOURCE_EXHAUSTED, sizeof no_memory_text - 1, no_memory_text};

pjrt_error *flxi_pjrt_oom(void)
{
    return &no_memory;
}

pjrt_error *flxi_pjrt_fail_text(pjrt_code code, const char *text, size_t size)
{
    pjrt_error *e = flxi_alloc(&flxi_pjrt_mem, sizeof *e + size + 1, 1);
    if (!e)
        return &no_memory;
    char *copy = (char *)(e + 1);
    if (size)
        memcpy(copy, text, size);
    *e = (pjrt_error){&error_table, (int32_t)code, size, copy};
    return e;
}

pjrt_error *flxi_pjrt_fail(pjrt_code code, const char *fmt, ...)
{
    char text[600];
    va_list args;
    va_start(args, fmt);
    size_t n = flxi_format_va(text, sizeof text, fmt, args);
    va_end(args);
    return flxi_pjrt_fail_text(code, text, n);
}

static pjrt_code code_of(int32_t code)
{
    switch (code) {
    case FLX_E_UNSUPPORTED: return PJRT_UNIMPLEMENTED;
    case FLX_E_OOM:
    case FLX_E_SIZE: return PJRT_RESOURCE_EXHAUSTED;
    case FLX_E_CHECK:
    case FLX_E_NUMERIC: return PJRT_FAILED_PRECONDITION;
    case FLX_E_CANCELLED: return PJRT_CANCELLED;
    case FLX_E_TIMEOUT: return PJRT_DEADLINE_EXCEEDED;
    case FLX_E_INTERNAL:
    case FLX_E_DEVICE: return PJRT_INTERNAL;
    default: return PJRT_INVALID_ARGUMENT;
    }
}

pjrt_error *flxi_pjrt_from(const flx_error *err)
{
    if (err->code == FLX_E_OOM)
        return &no_memory;
    return flxi_pjrt_fail(code_of(err->code), "%s%s%s%s%s%s", err->message, *err->where ? " (" : "", err->where,
                          *err->where ? ")" : "", *err->hint ? "; hint: " : "", err->hint);
}

void flxi_pjrt_error_free(pjrt_error *e)
{
    if (e && e != &no_memory)
        flxi_free(&flxi_pjrt_mem, e, sizeof *e + e->size + 1, 1);
}

/* ---- Calls ---- */

pjrt_error *flxi_pjrt_error_destroy(void *args)
{
    flxi_pjrt_error_free(((pjrt_handle_args *)args)->handle);
    return NULL;
}

pjrt_error *flxi_pjrt_error_message(void *args)
{
    pjrt_text_args *a = args;
    error_text(a->handle, &a->text, &a->size);
    return NULL;
}

pjrt_error *flxi_pjrt_error_get_code(void *args)
{
    pjrt_int_args *a = args;
    a->value = error_code(a->handle);
    return NULL;
}

pjrt_error *flxi_pjrt_error_for_each_payload(void *args)
{
    (void)args;
    return NULL;
}
