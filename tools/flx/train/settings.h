/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h: the text of a training: settings `name = value`, then its graphs, if the model is in the same file. White
   space separates, `#` starts a comment, as in .flx files.

     file    := { NAME "=" value } [ graphs ]
     value   := number | text | call | list
     text    := STRING | NAME
     call    := NAME "(" [ argument { "," argument } [ "," ] ] ")"
     argument:= [ NAME "=" ] value
     list    := "[" [ value { "," value } [ "," ] ] "]"
     graphs  := from the first word `graph` or `kernel` to the end of the file: a module

   The file is untrusted: depth and size are bounded, and every message has the line and column of what is wrong. */
#ifndef FLX_SETTINGS_H
#define FLX_SETTINGS_H

#include "io/load.h"

#include <stdbool.h>
#include <stddef.h>

enum { SETTINGS_MAX_ASKED = 48 };

typedef enum { SETTING_NUMBER, SETTING_TEXT, SETTING_CALL, SETTING_LIST } setting_kind;

typedef struct setting {
    setting_kind kind;
    const char *name; /* what is before `=`; NULL: nothing */
    const char *text; /* of a text; the function of a call; the number as it was written */
    double number;
    int line, column;                      /* of the name, or else of the value */
    struct setting *first;                 /* arguments of a call, values of a list */
    struct setting *next;                  /* the next one beside it */
    bool is_taken;                         /* asked for: see settings_check_taken() */
    const char *asked[SETTINGS_MAX_ASKED]; /* names of parts that were asked for, given or not */
    size_t num_asked;
} setting;

typedef struct {
    const char *file; /* for messages */
    file_bytes bytes;
    setting root;     /* a list of all settings */
    bool has_graphs;  /* `bytes` are a module now: what precedes it is blank, so that positions in it are right */
    const char *text; /* the settings as they were written, without the graphs */
    void *memory;     /* what the tree is in */
} settings;

/* Reads the file. Free with settings_free(), also after a failure. */
int settings_read(settings *s, const char *path);
/* The same of bytes, which the settings own from now on; `name` is for messages and must live as long. */
int settings_parse(settings *s, const char *name, file_bytes bytes);
void settings_free(settings *s);

/* `FILE:LINE:COL: error: MESSAGE [CODE]`; returns the exit status. */
int settings_fail(const settings *s, const setting *at, const char *fmt, ...) FLX_PRINTF(3, 4);

/* Limits of numbers that must be above 0, or below 1: the library takes 0 for the default; who writes it means
   something else. */
#define SETTINGS_ABOVE_0 1e-300
#define SETTINGS_BELOW_1 (1 - 0x1p-53)

/* Part `name` of `of` as what it must be; the value stays as it is when the part is not given. Numbers must be within
   [least, most]. */
int settings_integer(const settings *s, setting *of, const char *name, int64_t least, int64_t most, int64_t *value);
int settings_number(const settings *s, setting *of, const char *name, double least, double most, double *value);
int settings_bool(const settings *s, setting *of, const char *name, bool *value);
int settings_text(const settings *s, setting *of, const char *name, const char **value);
/* The argument without a name at this position, as a text. */
int settings_operand(const settings *s, setting *of, size_t position, const char *what, const char **value);

/* The part itself, of any kind; NULL when it is not given. It counts as asked for. */
setting *settings_take(setting *of, const char *name);

/* Fails because a text or call is not one of these names: says the nearest of them, or all. */
int settings_unknown(const settings *s, const setting *at, const char *what, const char *const *names, size_t count);

/* Fails at the first part of `of` that nothing has asked for, with the nearest of the names that were asked for. */
int settings_check_taken(const settings *s, const setting *of);

#endif
