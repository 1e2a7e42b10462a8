/* SPDX-License-Identifier: Apache-2.0 */
/* report.c: the form of error messages.

   FILE:LINE:COL: error: MESSAGE [CODE]
   hint: TEXT

   Text that came from outside (names, paths, messages of a graph) is printed without control bytes, so that a file
   cannot talk to the terminal. */
#include "report.h"

#include "interrupt.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A message ---- */

enum { MAX_SAID = 256 }; /* messages of ranks that are compared with later ones */

/* A message is put together before it is written, so that those of threads and processes do not mix. What is begun
   within another is a part of it. */
static _Thread_local struct {
    FILE *to;
    char *text;
    size_t size;
    int depth;
    bool waits; /* it says that another rank has left */
} now;

/* What ranks that are threads have said. */
static struct {
    pthread_mutex_t lock;
    struct {
        int64_t rank;
        char *text;
    } said[MAX_SAID];
    size_t num_said;
    char *waiting; /* that another rank has left: said if no rank says why */
    int status;    /* of the first failure that is a rank's own */
} ranks = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int64_t own_rank = -1; /* of this thread; -1: it is not a rank */

static void begin(void)
{
    if (now.depth++)
        return;
    now.text = NULL;
    now.waits = false;
    now.to = open_memstream(&now.text, &now.size);
    if (!now.to)
        now.to = stderr;
}

/* Whether another rank has said the same. */
static bool is_said(const char *text)
{
    for (size_t i = 0; i < ranks.num_said; i++)
        if (ranks.said[i].rank != own_rank && strcmp(ranks.said[i].text, text) == 0)
            return true;
    if (ranks.num_said < MAX_SAID && (ranks.said[ranks.num_said].text = strdup(text)))
        ranks.said[ranks.num_said++].rank = own_rank;
    return false;
}

static void end_of_rank(void)
{
    pthread_mutex_lock(&ranks.lock);
    if (now.waits && !ranks.waiting)
        ranks.waiting = strdup(now.text);
    else if (!now.waits && !is_said(now.text))
        fwrite(now.text, 1, now.size, stderr);
    pthread_mutex_unlock(&ranks.lock);
}

static void end(void)
{
    if (--now.depth || now.to == stderr)
        return;
    if (fclose(now.to) == 0 && own_rank >= 0)
        end_of_rank();
    else if (now.text)
        fwrite(now.text, 1, now.size, stderr);
    free(now.text);
}

static void put_printable(const char *text)
{
    for (const char *s = text; *s; s++) {
        unsigned char c = (unsigned char)*s;
        fputc(c < 32 || c == 127 ? '?' : c, now.to);
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

static int put_code(int32_t code)
{
    int status = flx_code_exit_status(code);
    fprintf(now.to, " [%s]\n", flx_code_name(code));
    if (own_rank >= 0 && !now.waits) {
        pthread_mutex_lock(&ranks.lock);
        ranks.status = ranks.status ? ranks.status : status;
        pthread_mutex_unlock(&ranks.lock);
    }
    return status;
}

int fail(int32_t code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    begin();
    fputs("error: ", now.to);
    put_format(fmt, args);
    va_end(args);
    int status = put_code(code);
    end();
    return status;
}

static void say(const char *kind, const char *fmt, va_list args)
{
    begin();
    fputs(kind, now.to);
    put_format(fmt, args);
    fputc('\n', now.to);
    end();
}

void hint(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say("hint: ", fmt, args);
    va_end(args);
}

void note(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say("note: ", fmt, args);
    va_end(args);
}

const char *plural(int64_t n, const char *one, const char *many)
{
    return n == 1 ? one : many;
}

/* ---- Lists ---- */

/* A list of what is missing shows enough to see what kind of names; a hint is searched for a name. */
enum { ERROR_ITEMS = 12, HINT_ITEMS = 40 };

static _Thread_local size_t list_items, list_shown; /* of the one list that is being written */

static void list_begin(const char *kind, size_t shown, const char *fmt, va_list args)
{
    list_shown = shown;
    begin();
    fputs(kind, now.to);
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
    fputs(list_items > 1 ? ", " : ": ", now.to);
    put_printable(item);
}

static void list_end(void)
{
    if (list_items > list_shown)
        fprintf(now.to, " and %zu more", list_items - list_shown);
}

int fail_list_end(int32_t code)
{
    list_end();
    int status = put_code(code);
    end();
    return status;
}

void hint_list_end(void)
{
    list_end();
    fputc('\n', now.to);
    end();
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

/* ---- Ranks ---- */

void report_as_rank(int64_t rank)
{
    own_rank = rank;
}

bool report_waits(void)
{
    return ranks.waiting != NULL;
}

int report_ranks_end(int status)
{
    own_rank = -1;
    if (ranks.waiting && !ranks.status)
        fputs(ranks.waiting, stderr);
    status = ranks.status && status ? ranks.status : status;
    free(ranks.waiting);
    for (size_t i = 0; i < ranks.num_said; i++)
        free(ranks.said[i].text);
    ranks.waiting = NULL;
    ranks.num_said = 0;
    ranks.status = 0;
    return status;
}

bool report_is_of_another(const flx_error *err)
{
    return err->code == FLX_E_DEVICE && strstr(err->message, "has left the mesh");
}

/* What the first rank says too: all were stopped, or they agreed on the message of one. */
static bool is_said_by_first(const flx_error *err)
{
    return own_rank > 0 &&
           (err->code == FLX_E_CANCELLED || err->code == FLX_E_TIMEOUT || strncmp(err->message, "rank ", 5) == 0);
}

/* ---- Errors and findings ---- */

int report(const flx_error *err, const char *file)
{
    bool is_silent = err->code == FLX_E_CANCELLED && interrupt_has_no_reader(); /* it stopped because of that */
    bool is_of_another = report_is_of_another(err);
    if (is_silent || (!is_of_another && is_said_by_first(err)))
        return flx_code_exit_status(err->code);
    const char *position = position_in(err->where);
    begin();
    now.waits = own_rank >= 0 && is_of_another;
    if (file) {
        put_printable(file);
        fprintf(now.to, "%s%s: ", position ? ":" : "", position ? position : "");
    }
    fputs("error: ", now.to);
    put_printable(err->message);
    int status = put_code(err->code);
    if (err->hint[0])
        hint("%s", err->hint);
    end();
    return status;
}

int report_transform(const flx_error *err)
{
    begin();
    fputs("error: ", now.to);
    put_printable(err->message);
    if (err->where[0]) {
        fputs(" (in ", now.to);
        put_printable(err->where);
        fputc(')', now.to);
    }
    int status = put_code(err->code);
    if (err->hint[0])
        hint("%s", err->hint);
    end();
    return status;
}

void report_finding(const char *file, const char *where, const flx_kernel_finding *f)
{
    begin();
    put_printable(file);
    put_printable(where);
    fprintf(now.to, ": %s: %s ", f->is_warning ? "warning" : "error", f->code);
    put_printable(f->message);
    if (f->is_warning)
        fputc('\n', now.to);
    else
        put_code(FLX_E_KERNEL);
    if (f->hint[0])
        hint("%s", f->hint);
    end();
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
