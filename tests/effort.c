/* SPDX-License-Identifier: Apache-2.0 */
/* effort.c: see effort.h. */
#include "effort.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef enum { QUICK, FULL, SOAK, SANITIZED, LEVEL_COUNT } level;

static const struct {
    const char *name;
    int64_t amounts[LEVEL_COUNT];
    const char *meaning;
} table[EFFORT_COUNT] = {
#define EFFORT_ROW(name, quick, full, soak, sanitized, meaning) {#name, {quick, full, soak, sanitized}, meaning},
    EFFORT_AMOUNTS(EFFORT_ROW)
#undef EFFORT_ROW
};

static const char *const levels[] = {"quick", "full", "soak"};

static bool is_word(const char *text, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(text, word, n) == 0;
}

/* One part of the variable: a level, or NAME=NUMBER. False when it is neither. */
static bool read_part(const char *text, size_t n, level *chosen, int64_t *given, bool *is_given)
{
    for (int i = QUICK; i <= SOAK; i++)
        if (is_word(text, n, levels[i])) {
            *chosen = (level)i;
            return true;
        }
    const char *equals = memchr(text, '=', n);
    if (!equals || equals + 1 == text + n)
        return false;
    for (int i = 0; i < EFFORT_COUNT; i++)
        if (is_word(text, (size_t)(equals - text), table[i].name)) {
            char *end;
            given[i] = strtoll(equals + 1, &end, 10);
            is_given[i] = true;
            return end == text + n;
        }
    return false;
}

/* Slow builds do less: see effort.h. */
static level level_of_build(level chosen)
{
#if defined(FLX_DEBUG)
    return chosen == SOAK ? FULL : SANITIZED;
#else
    return chosen;
#endif
}

static bool read_all(int64_t *amounts, FILE *errors)
{
    const char *text = getenv("FLX_TEST_EFFORT");
    level chosen = FULL;
    bool ok = true, is_given[EFFORT_COUNT] = {0};
    for (const char *p = text ? text : ""; *p;) {
        size_t n = strcspn(p, ",");
        bool is_known = read_part(p, n, &chosen, amounts, is_given);
        if (!is_known && errors)
            fprintf(errors, "FLX_TEST_EFFORT: '%.*s' is not quick, full, soak or NAME=NUMBER; see --amounts\n", (int)n,
                    p);
        ok = ok && is_known;
        p += n + (p[n] == ',');
    }
    for (int i = 0; i < EFFORT_COUNT; i++)
        if (!is_given[i])
            amounts[i] = table[i].amounts[level_of_build(chosen)];
    return ok;
}

int64_t effort(effort_name name)
{
    int64_t amounts[EFFORT_COUNT];
    read_all(amounts, NULL);
    return amounts[name];
}

bool effort_is_valid(FILE *to)
{
    int64_t amounts[EFFORT_COUNT];
    return read_all(amounts, to);
}

void effort_print(void)
{
    int64_t amounts[EFFORT_COUNT];
    read_all(amounts, NULL);
    for (int i = 0; i < EFFORT_COUNT; i++)
        printf("%-20s %8" PRId64 "  %s\n", table[i].name, amounts[i], table[i].meaning);
}
