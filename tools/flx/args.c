/* SPDX-License-Identifier: Apache-2.0 */
/* args.c: options by table. What the user may have meant is part of every message. */
#include "args.h"

#include "report.h"
#include "suggest.h"

#include <stdlib.h>
#include <string.h>

/* ---- Reading the command line ---- */

static const option *find_option(const command *c, const char *name, size_t n)
{
    for (const option *o = c->options; o->name; o++)
        if (strncmp(o->name, name, n) == 0 && o->name[n] == 0)
            return o;
    return NULL;
}

static int unknown_option(const command *c, const char *name, size_t n)
{
    int status = fail(FLX_E_USAGE, "unknown option '%.*s'", (int)(n < 100 ? n : 100), name);
    char word[40] = "";
    if (n < sizeof word)
        memcpy(word, name, n);
    if (!c->options->name) {
        hint("flx %s has no options", c->name);
        return status;
    }
    suggestion s = suggest_begin(word);
    for (const option *o = c->options; word[0] && o->name; o++)
        suggest_consider(&s, o->name);
    if (s.best)
        hint_list_begin("did you mean %s? flx %s knows", s.best, c->name);
    else
        hint_list_begin("flx %s knows", c->name);
    for (const option *o = c->options; o->name; o++)
        list_item(o->name);
    hint_list_end();
    return status;
}

/* An option that repeats is given once for each name. */
static int check_new_name(const args *a, const option *o, const char *value)
{
    const char *other;
    size_t n = strcspn(value, "=");
    for (size_t at = 0; (other = args_next(a, o->name, &at)) != NULL;)
        if (value[n] && strncmp(other, value, n + 1) == 0)
            return fail(FLX_E_USAGE, "%s names '%.*s' twice", o->name, (int)(n < 100 ? n : 100), value);
    return STATUS_OK;
}

static int given_twice(const option *o)
{
    int status = fail(FLX_E_USAGE, "%s is given twice", o->name);
    if (o->value && strcmp(o->value, "NAMES") == 0)
        hint("one %s has all names: %s a,b", o->name, o->name);
    return status;
}

static int keep_option(args *a, const option *o, const char *value)
{
    if (o->use != MAY_REPEAT && args_value(a, o->name))
        return given_twice(o);
    int status = o->use == MAY_REPEAT ? check_new_name(a, o, value) : STATUS_OK;
    if (status)
        return status;
    a->given[a->num_given++] = (given_option){o, value};
    return STATUS_OK;
}

/* Reads the option argv[*i] and moves *i to the last argument that belongs to it. */
static int parse_option(args *a, int argc, char **argv, int *i)
{
    const char *text = argv[*i];
    size_t n = strcspn(text, "=");
    const option *o = find_option(a->command, text, n);
    if (!o)
        return unknown_option(a->command, text, n);
    if (!o->value) {
        if (text[n])
            return fail(FLX_E_USAGE, "%s takes no value", o->name);
        return keep_option(a, o, "");
    }
    if (text[n])
        return keep_option(a, o, text + n + 1);
    if (*i + 1 >= argc || strncmp(argv[*i + 1], "--", 2) == 0) {
        int status = fail(FLX_E_USAGE, "%s needs a value", o->name);
        hint("%s %s", o->name, o->value);
        return status;
    }
    return keep_option(a, o, argv[++*i]);
}

static int keep_operand(args *a, const char *text)
{
    bool takes_two = strchr(a->command->operand, ' ') != NULL;
    const char **operand = !a->operand ? &a->operand : &a->second;
    if (!a->command->operand[0] || (a->operand && !takes_two) || *operand) {
        int status = fail(FLX_E_USAGE, "unexpected argument '%s'", text);
        hint("flx help %s shows what the command accepts", a->command->name);
        return status;
    }
    *operand = text;
    return STATUS_OK;
}

int args_parse(args *a, const command *c, int argc, char **argv)
{
    *a = (args){.command = c};
    a->given = calloc((size_t)argc + 1, sizeof *a->given);
    if (!a->given)
        return fail_memory();
    bool options_ended = false;
    for (int i = 0; i < argc; i++) {
        int status = STATUS_OK;
        if (options_ended || argv[i][0] != '-' || argv[i][1] == 0)
            status = keep_operand(a, argv[i]);
        else if (strcmp(argv[i], "--") == 0)
            options_ended = true;
        else
            status = parse_option(a, argc, argv, &i);
        if (status)
            return status;
    }
    bool is_needed = c->operand[0] && c->operand[0] != '[';
    if (is_needed && !a->operand) {
        int status = fail(FLX_E_USAGE, "flx %s needs a %.*s", c->name, (int)strcspn(c->operand, " "), c->operand);
        hint("flx help %s", c->name);
        return status;
    }
    return STATUS_OK;
}

void args_free(args *a)
{
    free(a->given);
    *a = (args){0};
}

const char *args_next(const args *a, const char *name, size_t *at)
{
    while (*at < a->num_given) {
        const given_option *g = &a->given[(*at)++];
        if (strcmp(g->option->name, name) == 0)
            return g->value;
    }
    return NULL;
}

const char *args_value(const args *a, const char *name)
{
    size_t at = 0;
    return args_next(a, name, &at);
}

bool args_has(const args *a, const char *name)
{
    return args_value(a, name) != NULL;
}

int args_split(const char *option_name, const char *text, const char *form, char **name, const char **rest)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return fail(FLX_E_USAGE, "%s must have the form %s, got '%s'", option_name, form, text);
    *name = strndup(text, (size_t)(equals - text));
    if (!*name)
        return fail_memory();
    *rest = equals + 1;
    return STATUS_OK;
}

/* ---- Numbers ---- */

bool read_number(const char *text, double *out)
{
    const char *s = text + (*text == '-' || *text == '+');
    bool is_word = strcmp(s, "inf") == 0 || strcmp(s, "nan") == 0;
    if (!is_word && !(*s >= '0' && *s <= '9') && *s != '.')
        return false; /* strtod takes more: blanks, `infinity`, `nan(...)` */
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == 0;
}

bool read_integer(const char *text, bool *negative, uint64_t *magnitude)
{
    const char *s = text + (*text == '-' || *text == '+');
    *negative = *text == '-';
    uint64_t v = 0;
    if (!*s)
        return false;
    for (; *s; s++) {
        if (*s < '0' || *s > '9')
            return false;
        uint64_t digit = (uint64_t)(*s - '0');
        if (v > (UINT64_MAX - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    *magnitude = v;
    return true;
}

bool read_i64(const char *text, int64_t *out)
{
    bool is_negative;
    uint64_t magnitude;
    if (!read_integer(text, &is_negative, &magnitude) || magnitude > (uint64_t)INT64_MAX + is_negative)
        return false;
    *out = is_negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

bool read_amount(const char *text, int64_t *out)
{
    static const char letters[] = "KMG";
    char digits[32];
    size_t n = strlen(text);
    const char *letter = n ? strchr(letters, text[n - 1]) : NULL;
    int shift = letter && *letter ? 10 * (int)(letter - letters + 1) : 0;
    n -= shift > 0;
    if (n == 0 || n >= sizeof digits)
        return false;
    memcpy(digits, text, n);
    digits[n] = 0;
    if (!read_i64(digits, out) || *out < 1 || *out > INT64_MAX >> shift)
        return false;
    *out <<= shift;
    return true;
}
