/* SPDX-License-Identifier: Apache-2.0 */
/* args.h: the command line of one command, read by its table of options. */
#ifndef FLX_ARGS_H
#define FLX_ARGS_H

#include "command.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const option *option;
    const char *value; /* "" for a flag */
} given_option;

typedef struct args {
    const command *command;
    const char *operand; /* FILE or NAME, or NULL */
    const char *second;  /* what follows it, for a command that takes two; or NULL */
    given_option *given; /* in the order of the command line */
    size_t num_given;
} args;

/* Reads what follows the command's name. Options come before or after the operand, as `--name value` or
   `--name=value`; after `--` everything is an operand. Free with args_free(), also after a failure. */
int args_parse(args *a, const command *c, int argc, char **argv);
void args_free(args *a);

bool args_has(const args *a, const char *name);
/* The value of an option that does not repeat; NULL when it was not given. */
const char *args_value(const args *a, const char *name);
/* The next value of an option that repeats, or NULL; *at starts at 0. */
const char *args_next(const args *a, const char *name, size_t *at);

/* Splits `NAME=REST` of an option at the first '='. On success *name is allocated (the caller frees it) and *rest
   points into `text`. */
int args_split(const char *option_name, const char *text, const char *form, char **name, const char **rest);

/* The whole of `text` as a number: decimal or hexadecimal, `inf` and `nan` with an optional sign. */
bool read_number(const char *text, double *out);
/* The whole of `text` as a decimal integer with optional sign: its sign and magnitude. */
bool read_integer(const char *text, bool *negative, uint64_t *magnitude);
/* The same, when it fits. */
bool read_i64(const char *text, int64_t *out);

/* A positive number of bytes, which a letter K, M or G multiplies by 2^10, 2^20 or 2^30; false otherwise. */
bool read_amount(const char *text, int64_t *out);

#endif
