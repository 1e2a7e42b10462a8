/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_checker.c: see kernel_checker.h. */
#include "kernel/check/kernel_checker.h"

#include "base/text/count_words.h"
#include "base/text/utf8.h"

#include <stdio.h>

enum { NAME_MAX_BYTES = 1024 };

/* ---- Findings ---- */

static void keep_first(flxi_kchecker *c, const flx_kernel_finding *f)
{
    if (c->errors++ > 0)
        return;
    flxi_kernel_fail(&c->first, f->code, f->hint, "%s", f->message);
    flxi_at(&c->first, "%s", f->path);
    c->first_position = f->position;
}

static void add_finding(flxi_kchecker *c, const char *code, bool is_warning, const char *hint, const char *fmt,
                        va_list args)
{
    flx_kernel_finding f = {.is_warning = is_warning, .position = c->position};
    snprintf(f.code, sizeof f.code, "%s", code);
    snprintf(f.hint, sizeof f.hint, "%s", hint);
    flxi_format_va(f.message, sizeof f.message, fmt, args);
    flxi_kpath_write(&c->path, f.path, sizeof f.path);
    if (c->found < c->room)
        c->findings[c->found] = f;
    c->found++;
    if (!is_warning)
        keep_first(c, &f);
}

void flxi_kfind(flxi_kchecker *c, const char *code, const char *hint, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_finding(c, code, false, hint, fmt, args);
    va_end(args);
}

void flxi_kwarn(flxi_kchecker *c, const char *code, const char *hint, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_finding(c, code, true, hint, fmt, args);
    va_end(args);
}

/* ---- Names ---- */

uint32_t flxi_kname_number(flxi_kchecker *c, const char *text)
{
    uint64_t h = flxi_hash_u64(FLXI_HASH_SEED, (uint64_t)(uintptr_t)text);
    uint32_t found;
    for (flxi_probe p = flxi_index_first(&c->name_index, h); flxi_index_next(&c->name_index, &p, &found);)
        if (c->names.at[found].text == text)
            return found;
    flxi_kname fresh = {.text = text};
    if (c->failed || !flxi_push(c->mem, &c->names, fresh) ||
        !flxi_index_add(c->mem, &c->name_index, h, (uint32_t)c->names.n - 1)) {
        c->failed = true;
        return 0;
    }
    return (uint32_t)c->names.n - 1;
}

flxi_kname *flxi_kname_of(flxi_kchecker *c, const char *text)
{
    uint32_t number = flxi_kname_number(c, text); /* may move the names */
    return &c->names.at[number];
}

/* What is wrong with a text, or NULL. */
static const char *fault_of_text(const char *s, size_t n)
{
    return flxi_is_utf8(s, n) ? NULL : "is not UTF-8";
}

static const char *fault_of_name(const char *s, size_t n)
{
    if (n == 0)
        return "is empty";
    if (n > NAME_MAX_BYTES)
        return "is longer than 1024 bytes";
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < 32 || s[i] == 127)
            return "holds a control byte";
    return fault_of_text(s, n);
}

enum { AS_TEXT = 1, AS_NAME = 2 };

static bool is_new(flxi_kchecker *c, const char *text, uint8_t as)
{
    flxi_kname *record = flxi_kname_of(c, text);
    bool fresh = !(record->checked & as);
    record->checked |= as;
    return fresh;
}

void flxi_kcheck_name(flxi_kchecker *c, const char *what, const char *name)
{
    const char *fault = is_new(c, name, AS_NAME) ? fault_of_name(name, strlen(name)) : NULL;
    if (fault)
        flxi_kfind(c, "K09", "use 1 to 1024 bytes of UTF-8 without control bytes", "the name of %s '%s' %s", what,
                   flxi_kshow(name).at, fault);
}

void flxi_kcheck_text(flxi_kchecker *c, const char *what, const char *text)
{
    if (is_new(c, text, AS_TEXT) && fault_of_text(text, strlen(text)))
        flxi_kfind(c, "K09", "texts of a kernel are UTF-8", "%s '%s' is not UTF-8", what, flxi_kshow(text).at);
}

/* ---- Words of messages ---- */

flxi_kshown flxi_kshow(const char *text)
{
    flxi_kshown shown;
    flxi_printable(shown.at, sizeof shown.at, text, strnlen(text, sizeof shown.at));
    return shown;
}

const char *flxi_ktype_shown(uint32_t type)
{
    const char *name = flxi_ktype_of(type)->name;
    return name ? name : "no type";
}

const flxi_kbuffer *flxi_kcheck_buffer(flxi_kchecker *c, uint32_t buffer, const char *what)
{
    if (buffer > 0 && buffer <= c->k->num_buffers)
        return &c->k->buffers[buffer];
    flxi_kfind(c, "K15", "declare the buffer, or use one that is declared", "%s of a buffer that does not exist", what);
    return &c->k->buffers[0];
}
