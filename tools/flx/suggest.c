/* SPDX-License-Identifier: Apache-2.0 */
/* suggest.c: the edit distance, with a swap of two neighbours as one edit (Damerau, restricted form). A candidate is
   near when at most a third of its letters would have to change. */
#include "suggest.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

enum { MAX_LENGTH = 40 }; /* longer words are not looked at */

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int distance(const char *a, const char *b)
{
    int rows[3][MAX_LENGTH + 1]; /* of the table of prefixes: two above, above, this one */
    int *before = rows[0];
    int *above = rows[1];
    int *row = rows[2];
    int m = (int)strlen(b);
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int *spare = before;
        before = above;
        above = row;
        row = spare;
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            row[j] = least(above[j - 1] + (a[i - 1] != b[j - 1]), least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return row[m];
}

/* How many letters two words begin with: of candidates as near, the one that begins alike was meant. */
static size_t common(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n])
        n++;
    return n;
}

suggestion suggest_begin(const char *word)
{
    return (suggestion){word, NULL, INT_MAX};
}

void suggest_consider(suggestion *s, const char *candidate)
{
    size_t n = strlen(candidate);
    if (n > MAX_LENGTH || strlen(s->word) > MAX_LENGTH)
        return;
    int d = distance(s->word, candidate);
    bool is_nearer = d < s->distance || (d == s->distance && common(s->word, candidate) > common(s->word, s->best));
    if (is_nearer && d <= ((int)n + 2) / 3) {
        s->distance = d;
        s->best = candidate;
    }
}
