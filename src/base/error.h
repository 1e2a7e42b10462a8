/* SPDX-License-Identifier: Apache-2.0 */
/* error.h: fills in a flx_error. err may be NULL everywhere. */
#ifndef FLXI_ERROR_H
#define FLXI_ERROR_H

#include <fluxion/types.h>
#include <stdarg.h>
#include <stdbool.h>

/* Sets code and message, clears where and hint; returns the code, so `return flxi_fail(…)` reads well. */
flx_code flxi_fail(flx_error *err, flx_code code, const char *fmt, ...) FLX_PRINTF(3, 4);
flx_code flxi_fail_hint(flx_error *err, flx_code code, const char *hint, const char *fmt, ...) FLX_PRINTF(4, 5);
flx_code flxi_fail_va(flx_error *err, flx_code code, const char *hint, const char *fmt, va_list args);

/* Adds the location, unless an inner one is already set. Returns err's code. */
flx_code flxi_at(flx_error *err, const char *fmt, ...) FLX_PRINTF(2, 3);
/* Replaces the hint. */
void flxi_hint(flx_error *err, const char *fmt, ...) FLX_PRINTF(2, 3);

/* Copies untrusted text for use in a message: control bytes become '?', at most size-1 bytes. */
const char *flxi_printable(char *buffer, size_t size, const char *s, size_t n);

/* Whether it is FLX_OK or a code of FLX_ERROR_MAP: functions of the program return what they want. */
bool flxi_is_code(int32_t code);

/* The most common error. */
flx_code flxi_oom(flx_error *err, const char *what);

/* The only macro with control flow: returns a failure to the caller. */
#define FLXI_TRY(call)               \
    do {                             \
        flx_code flxi_try_ = (call); \
        if (flxi_try_ != FLX_OK)     \
            return flxi_try_;        \
    } while (0)

#endif
