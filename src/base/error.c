/* SPDX-License-Identifier: Apache-2.0 */
/* error.c: errors as values. Messages are truncated to fit, never allocated. */
#include "base/error.h"

#include "base/host/stop.h"
#include "base/text/count_words.h"

#include <stdio.h>
#include <string.h>

flx_code flxi_fail_va(flx_error *err, flx_code code, const char *hint, const char *fmt, va_list args)
{
    if (code == FLX_E_OOM && flxi_stopped()) /* arenas and texts do not grow for work that is to end */
        return flxi_stop_check(err);
    if (!err)
        return code;
    memset(err, 0, sizeof *err);
    err->code = (int32_t)code;
    flxi_format_va(err->message, sizeof err->message, fmt, args);
    if (hint)
        snprintf(err->hint, sizeof err->hint, "%s", hint);
    return code;
}

flx_code flxi_fail(flx_error *err, flx_code code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    flx_code failed = flxi_fail_va(err, code, NULL, fmt, args);
    va_end(args);
    return failed;
}

flx_code flxi_fail_hint(flx_error *err, flx_code code, const char *hint, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    flx_code failed = flxi_fail_va(err, code, hint, fmt, args);
    va_end(args);
    return failed;
}

flx_code flxi_at(flx_error *err, const char *fmt, ...)
{
    if (!err)
        return FLX_OK;
    if (!err->where[0]) {
        va_list args;
        va_start(args, fmt);
        vsnprintf(err->where, sizeof err->where, fmt, args);
        va_end(args);
    }
    return (flx_code)err->code;
}

void flxi_hint(flx_error *err, const char *fmt, ...)
{
    if (!err)
        return;
    va_list args;
    va_start(args, fmt);
    flxi_format_va(err->hint, sizeof err->hint, fmt, args);
    va_end(args);
}

const char *flxi_printable(char *buffer, size_t size, const char *s, size_t n)
{
    size_t k = 0;
    for (; k < n && k + 1 < size; k++)
        buffer[k] = (s[k] >= 32 && s[k] < 127) ? s[k] : '?';
    buffer[k] = 0;
    return buffer;
}

flx_code flxi_oom(flx_error *err, const char *what)
{
    return flxi_fail(err, FLX_E_OOM, "out of memory: %s", what);
}

/* ---- Names, texts and exit statuses of codes ---- */

typedef struct {
    int32_t code;
    int status; /* of a command that fails with it */
    const char *name, *text;
} code_row;

static const code_row codes[] = {{FLX_OK, 0, "OK", "no error"},
#define CODE_ROW(name, value, status, text) {value, status, #name, text},
                                 FLX_ERROR_MAP(CODE_ROW)
#undef CODE_ROW
};

static const code_row unknown = {0, 3, "UNKNOWN", "unknown error code"};

static const code_row *find_code(int32_t code)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (codes[i].code == code)
            return &codes[i];
    return &unknown;
}

bool flxi_is_code(int32_t code)
{
    return find_code(code) != &unknown;
}

const char *flx_code_name(int32_t code)
{
    return find_code(code)->name;
}

const char *flx_code_text(int32_t code)
{
    return find_code(code)->text;
}

int flx_code_exit_status(int32_t code)
{
    return find_code(code)->status;
}

const char *flx_version(void)
{
    return FLX_VERSION;
}
