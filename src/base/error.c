/* SPDX-License-Identifier: Apache-2.0 */
/* error.c: errors as values. Messages are truncated to fit, never allocated. */
#include "base/error.h"

#include <stdio.h>
#include <string.h>

flx_code flxi_fail_va(flx_error *err, flx_code code, const char *hint, const char *fmt, va_list args)
{
    if (!err)
        return code;
    memset(err, 0, sizeof *err);
    err->code = (int32_t)code;
    vsnprintf(err->message, sizeof err->message, fmt, args);
    if (hint)
        snprintf(err->hint, sizeof err->hint, "%s", hint);
    return code;
}

flx_code flxi_fail(flx_error *err, flx_code code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    flxi_fail_va(err, code, NULL, fmt, args);
    va_end(args);
    return code;
}

flx_code flxi_fail_hint(flx_error *err, flx_code code, const char *hint, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    flxi_fail_va(err, code, hint, fmt, args);
    va_end(args);
    return code;
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
    vsnprintf(err->hint, sizeof err->hint, fmt, args);
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

#define CODE_NAME(name, value, status, text) \
    case value:                              \
        return #name;
#define CODE_TEXT(name, value, status, text) \
    case value:                              \
        return text;
#define CODE_STATUS(name, value, status, text) \
    case value:                                \
        return status;

const char *flx_code_name(int32_t code)
{
    switch (code) {
    case FLX_OK:
        return "OK";
        FLX_ERROR_MAP(CODE_NAME)
    default:
        return "UNKNOWN";
    }
}

const char *flx_code_text(int32_t code)
{
    switch (code) {
    case FLX_OK:
        return "no error";
        FLX_ERROR_MAP(CODE_TEXT)
    default:
        return "unknown error code";
    }
}

int flx_code_exit_status(int32_t code)
{
    switch (code) {
    case FLX_OK:
        return 0;
        FLX_ERROR_MAP(CODE_STATUS)
    default:
        return 3;
    }
}

const char *flx_version(void)
{
    return FLX_VERSION;
}
