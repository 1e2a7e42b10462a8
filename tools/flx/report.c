/* SPDX-License-Identifier: Apache-2.0 */
/* report.c: the form of error messages.

   FILE:LINE:COL: error: MESSAGE [CODE]
   hint: TEXT

   Text that came from outside (names, paths, messages of a graph) is printed without control bytes, so that a file
   cannot talk to the terminal. */
#include "report.h"

#include "interrupt.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_printable(const char *text)
{
    for (const char *s = text; *s; s++) {
        unsigned char c = (unsigned char)*s;
        fputc(c < 32 || c == 127 ? '?' : c, stderr);
    }
}

static void put_format(const char *fmt, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, fmt, args) < 0)
        text = NULL;
    put_printable(text ? text : fmt);
    free(text);
}

static void put_code(int32_t code)
{
    fprintf(stderr, " [%s]\n", flx_code_name(code));
}

int fail(int32_t code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("error: ", stderr);
    put_format(fmt, args);
    va_end(args);
    put_code(code);
    return flx_code_exit_status(code);
}

void hint(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("hint: ", stderr);
    put_format(fmt, args);
    va_end(args);
    fputc('\n', stderr);
}

void note(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("note: ", stderr);
    put_format(fmt, args);
    va_end(args);
    fputc('\n', stderr);
}

/* ---- Lists ---- */

/* A list of what is missing shows enough to see what kind of names; a hint is searched for a name. */
enum { ERROR_ITEMS = 12, HINT_ITEMS = 40 };

static size_t list_items, list_shown; /* of the one list that is being written */

static void list_begin(const char *kind, size_t shown, const char *fmt, va_list args)
{
    list_shown = shown;
    fputs(kind, stderr);
    put_format(fmt, args);
    list_items = 0;
}

void fail_list_begin(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    list_begin("error: ", ERROR_ITEMS, fmt, args);
    va_end(args);
}

void hint_list_begin(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    list_begin("hint: ", HINT_ITEMS, fmt, args);
    va_end(args);
}

void note_list_begin(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    list_begin("note: ", HINT_ITEMS, fmt, args);
    va_end(args);
}

void list_item(const char *item)
{
    if (list_items++ >= list_shown)
        return;
    fputs(list_items > 1 ? ", " : ": ", stderr);
    put_printable(item);
}

static void list_end(void)
{
    if (list_items > list_shown)
        fprintf(stderr, " and %zu more", list_items - list_shown);
}

int fail_list_end(int32_t code)
{
    list_end();
    put_code(code);
    return flx_code_exit_status(code);
}

void hint_list_end(void)
{
    list_end();
    fputc('\n', stderr);
}

void note_list_end(void)
{
    hint_list_end();
}

/* ---- What the library says ---- */

/* The `LINE:COL` or `OFFSET` at the end of `where`, or NULL. The file's name before it may have been cut to fit, so it
   is not used. */
static const char *position_in(const char *where)
{
    const char *s = where + strlen(where), *found = NULL;
    for (int numbers = 0; numbers < 2; numbers++) {
        const char *end = s;
        while (s > where && s[-1] >= '0' && s[-1] <= '9')
            s--;
        if (s == end || s == where || s[-1] != ':')
            return found;
        found = s--;
    }
    return found;
}

static _Thread_local bool is_member;

void report_as_member(void)
{
    is_member = true;
}

/* What the first rank says too: another has left, all were stopped, or they agreed on the message of one. */
static bool is_said_by_all(const flx_error *err)
{
    return err->code == FLX_E_DEVICE || err->code == FLX_E_CANCELLED || err->code == FLX_E_TIMEOUT ||
           strncmp(err->message, "rank ", 5) == 0;
}

int report(const flx_error *err, const char *file)
{
    bool is_silent = err->code == FLX_E_CANCELLED && interrupt_has_no_reader(); /* it stopped because of that */
    if (is_silent || (is_member && is_said_by_all(err)))
        return flx_code_exit_status(err->code);
    const char *position = position_in(err->where);
    flockfile(stderr);
    if (file) {
        put_printable(file);
        fprintf(stderr, "%s%s: ", position ? ":" : "", position ? position : "");
    }
    fputs("error: ", stderr);
    put_printable(err->message);
    put_code(err->code);
    if (err->hint[0])
        hint("%s", err->hint);
    funlockfile(stderr);
    return flx_code_exit_status(err->code);
}

int report_transform(const flx_error *err)
{
    fputs("error: ", stderr);
    put_printable(err->message);
    if (err->where[0]) {
        fputs(" (in ", stderr);
        put_printable(err->where);
        fputc(')', stderr);
    }
    put_code(err->code);
    if (err->hint[0])
        hint("%s", err->hint);
    return flx_code_exit_status(err->code);
}

void report_finding(const char *file, const char *where, const flx_kernel_finding *f)
{
    put_printable(file);
    put_printable(where);
    fprintf(stderr, ": %s: %s ", f->is_warning ? "warning" : "error", f->code);
    put_printable(f->message);
    if (f->is_warning)
        fputc('\n', stderr);
    else
        put_code(FLX_E_KERNEL);
    if (f->hint[0])
        hint("%s", f->hint);
}

int fail_memory(void)
{
    return fail(FLX_E_OOM, "out of memory");
}

int fail_write(const char *path, const char *why)
{
    fail(FLX_E_IO, "cannot write %s: %s", path, why);
    return STATUS_SYSTEM;
}
